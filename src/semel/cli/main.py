"""`semel`: the commands and their options. Each command's module is imported when it is called."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from semel._version import __version__
from semel.errors import ConfigError, SemelError

_DESCRIPTION = "Exactly-once event pipelines on Spark: nothing lost, nothing twice, and the books to prove it."
_EPILOG = """\
start here:
  semel demo                     see it work: generate, run, crash, run again, audit
  semel run clicks.yaml          read what is new, once
  semel audit clicks.yaml        do the books balance?

Exit status: 0 done, 1 the run failed and can be run again, 2 a wrong call or configuration."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see `{self.prog} --help`")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point of the command line."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Carry out one command; the exit status."""
    debug = "--debug" in arguments
    try:
        options = _parser().parse_args(arguments)
        _set_up_logging(options)
        _arm_crash_points()
        module, _, function = options.command.partition(":")
        return int(getattr(importlib.import_module(f"semel.cli.{module}"), function)(options))
    except SemelError as error:
        if debug:
            raise
        print(f"semel: {error}{' (running it again may help)' if error.retry_helps else ''}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print("semel: interrupted; what was not committed can be run again", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if debug:
            raise
        print(f"semel: {type(error).__name__}: {error} (run with --debug to see where)", file=sys.stderr)
        return 1


def _arm_crash_points() -> None:
    """For crash tests and the demo: die where the environment says."""
    if os.environ.get("SEMEL_CRASH_AT"):
        from semel.testing.faults import arm_from_environment

        arm_from_environment()


def _set_up_logging(options: argparse.Namespace) -> None:
    level = logging.INFO if getattr(options, "verbose", False) else logging.WARNING
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("semel")
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False


def _parser() -> _Parser:
    parser = _Parser(
        prog="semel",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"semel {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)

    command = _command(commands, "run", "run:run", "read what is new, once", "semel run clicks.yaml --json")
    _pipeline(command)
    mode = command.add_mutually_exclusive_group()
    mode.add_argument("--once", action="store_true", help="all there is, then stop (the default)")
    mode.add_argument("--follow", action="store_true", help="go on with what arrives, until told to stop")
    command.add_argument("--every", default="5s", metavar="TIME", help="with --follow: how often to look (default 5s)")
    _json(command)

    command = _command(
        commands, "audit", "audit:audit", "prove from disk that the books balance", "semel audit clicks.yaml"
    )
    _pipeline(command)
    command.add_argument("--quick", action="store_true", help="counts and checksums only, without Spark")
    _json(command)

    command = _command(
        commands,
        "runs",
        "runs:runs",
        "the history of a pipeline, newest last",
        "semel runs clicks.yaml --last 5",
    )
    _pipeline(command)
    command.add_argument("--last", type=int, metavar="N", help="only the newest N")
    _json(command)

    command = _command(
        commands,
        "void",
        "runs:void",
        "give up an open run whose input is gone",
        "semel void clicks.yaml r000000007-20260102T030405Z",
    )
    _pipeline(command)
    command.add_argument("run", metavar="RUN", help="the run id, as `semel runs` shows it")
    command.add_argument("--yes", action="store_true", help="do not ask")
    _json(command)

    command = _command(
        commands,
        "demo",
        "demo:demo",
        "see it work, without a server, in under a minute",
        "semel demo --folder /tmp/semel-demo",
    )
    command.add_argument("--folder", default="semel-demo", help="where to leave it (default: semel-demo)")
    command.add_argument(
        "--events",
        type=int,
        default=20_000,
        metavar="N",
        help="events in each of three batches (default 20000)",
    )
    command.add_argument("--seed", type=int, default=1, help="another seed makes other events")
    _common(command)

    command = _command(
        commands,
        "generate",
        "generate:generate",
        "events with known truth, for trying things out",
        "semel generate shop --events 100000 --batches 3 --duplicates 0.1",
    )
    command.add_argument("folder", metavar="FOLDER", help="gets in/, truth/ and pipeline.yaml")
    command.add_argument(
        "--events", type=int, default=10_000, metavar="N", help="records in each batch (default 10000)"
    )
    command.add_argument("--batches", type=int, default=1, metavar="N", help="default 1")
    command.add_argument("--files", type=int, default=1, metavar="N", help="files in each batch (default 1)")
    command.add_argument("--format", choices=("jsonl", "csv", "parquet"), default="jsonl")
    command.add_argument("--compression", choices=("gzip", "zstd"))
    command.add_argument("--seed", type=int, default=1)
    for share, default in (
        ("duplicates", 0.1),
        ("conflicts", 0.01),
        ("late", 0.01),
        ("rejected", 0.02),
        ("bad", 0.01),
    ):
        command.add_argument(f"--{share}", type=float, default=default, metavar="SHARE", help=f"default {default}")
    _json(command)

    command = _command(
        commands,
        "schema",
        "schema:schema",
        "the JSON Schema of the pipeline file, for editors",
        "semel schema > semel.schema.json",
    )
    _common(command)

    command = _command(
        commands,
        "doctor",
        "doctor:doctor",
        "what this machine has and lacks, and how to mend it",
        "semel doctor clicks.yaml",
    )
    command.add_argument("pipeline", nargs="?", metavar="PIPELINE.yaml", help="check this pipeline file too")
    command.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help="override a setting"
    )
    _json(command)
    return parser


def _command(commands: Any, name: str, function: str, help_text: str, example: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help_text,
        description=f"{help_text[0].upper()}{help_text[1:]}.",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(command=function)
    return command


def _pipeline(command: argparse.ArgumentParser) -> None:
    command.add_argument("pipeline", metavar="PIPELINE.yaml", help="the pipeline file")
    command.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a setting, as in --set horizon=7d",
    )


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print one JSON object on stdout and nothing else")
    _common(command)


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument("-v", "--verbose", action="store_true", help="say more, on stderr")
    command.add_argument("--debug", action="store_true", help="show where an error came from")


if __name__ == "__main__":
    main()
