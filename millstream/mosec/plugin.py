"""The plug-in that workers of a MOSEC script run: loads the script, and adapts its class.

`millstream worker …/plugin.py:Plugin` is told the rest by an environment variable.
"""

import importlib
import importlib.util
import os
import sys

from millstream.mosec import alias
from millstream.mosec.adapter import plugin_class
from millstream.mosec.setting import Setting, is_worker, of_this_process
from millstream.mosec.worker import Worker

_MAIN = "__mp_main__"
"""The name under which processes that multiprocessing starts import a script."""


def load(setting: Setting) -> type[Worker]:
    """The class, of the script imported as a process of multiprocessing would: not as the main
    program, so that what stands under its guard is not run.
    """
    alias.take_over()
    if setting.devices is None:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = setting.devices
    sys.argv = list(setting.argv)
    known = set(sys.path)
    sys.path[:0] = setting.path[:1]
    sys.path += [entry for entry in setting.path[1:] if entry not in known]
    spec = importlib.util.spec_from_file_location(_MAIN, setting.script)
    if spec is None or spec.loader is None:
        raise ImportError(f"{setting.script}: is no Python script")
    module = importlib.util.module_from_spec(spec)
    if setting.package:
        module.__package__ = setting.package
    sys.modules[_MAIN] = module
    spec.loader.exec_module(module)
    if setting.module != "__main__":
        module = importlib.import_module(setting.module)
    found: object = module
    for name in setting.name.split("."):
        found = getattr(found, name)
    if not (isinstance(found, type) and issubclass(found, Worker)):
        raise TypeError(f"{setting.script}: {setting.name} is no subclass of Worker")
    return found


if is_worker():
    _setting = of_this_process()
    Plugin = plugin_class(load(_setting), _setting)
