"""Which settings the environment makes before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.pipeline.session import configured_settings


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("", set()),
        ("pyspark-shell", set()),
        ("--master yarn --driver-memory 8g pyspark-shell", {"spark.master", "spark.driver.memory"}),
        (
            "--conf spark.ui.enabled=true -c 'spark.app.name=my app' pyspark-shell",
            {"spark.ui.enabled", "spark.app.name"},
        ),
        (
            "--driver-java-options '-Xss4m -Da=b' --name x pyspark-shell",
            {"spark.driver.extraJavaOptions", "spark.app.name"},
        ),
    ],
)
def test_submit_arguments(arguments: str, found: set[str]) -> None:
    assert configured_settings({"PYSPARK_SUBMIT_ARGS": arguments}) == found


@pytest.mark.parametrize("variable", ["SPARK_CONF_DIR", "SPARK_HOME"])
def test_defaults_file(tmp_path: Path, variable: str) -> None:
    folder = tmp_path if variable == "SPARK_CONF_DIR" else tmp_path / "conf"
    folder.mkdir(exist_ok=True)
    text = "# spark.app.name no\nspark.master\tlocal[1]\n\n  spark.driver.memory=4g\n"
    (folder / "spark-defaults.conf").write_text(text)
    assert configured_settings({variable: str(tmp_path)}) == {"spark.master", "spark.driver.memory"}


def test_no_defaults_file(tmp_path: Path) -> None:
    assert configured_settings({"SPARK_CONF_DIR": str(tmp_path)}) == set()
