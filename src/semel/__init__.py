"""semel"""
