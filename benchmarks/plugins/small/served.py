"""The small workload from one file: `python served.py PIPELINE STAGE…`."""

import sys

from benchmarks.plugins.small.millstream_plugin import Add
from millstream import Pipeline, serve

if __name__ == "__main__":
    pipeline, *stages = sys.argv[1:]
    serve(Pipeline(pipeline, [Add.replicas(stage=stage) for stage in stages]))
