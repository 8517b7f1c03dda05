"""What has been accepted, remembered for the horizon."""
