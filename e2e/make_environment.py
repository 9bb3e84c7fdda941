"""Makes a folder of Python packages once, whoever asks for it at the same time and whatever was killed before. Run by python-environment.ts.

The folder is made in its place, since a virtual environment that was moved keeps wrong paths inside. One process makes it, under a lock on `<folder>.lock` that the
kernel frees when the last process that holds it ends: pip and uv hold it too, so what a killed maker left running is waited for. What has no file `made.json`
inside is half-made, and begun again. One argument, JSON: {kind: venv or target, folder, packages, unpack, imports, waitSeconds}.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time

MADE = "made.json"
PIP = ["-m", "pip", "--disable-pip-version-check"]
UV = "uv==0.13.8"


def lock(path, seconds):
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    os.set_inheritable(held, True)
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end:
                raise SystemExit(f"{path} was locked by another process for {seconds} s")
            time.sleep(0.2)


def run(python, *args, seconds=480, **more):
    done = subprocess.run([python, *args], close_fds=False, timeout=seconds, stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise RuntimeError(said.splitlines()[-1] if said else f"{python} {' '.join(args)} ended with {done.returncode}")


CHECK = """
import sys, json, importlib, importlib.metadata as m
needs = json.loads(sys.argv[1])
for name, version in needs["exact"]: assert m.version(name) == version, f"{name} is {m.version(name)}, not {version}"
for name in needs["imports"]: importlib.import_module(name)
"""


def check(python, ask):
    exact = [re.sub(r"\[.*?\]", "", package).split("==") for package in ask["packages"]]
    run(python, "-c", CHECK, json.dumps({"exact": exact, "imports": ask["imports"]}))


def make_venv(ask):
    python = os.path.join(ask["folder"], "bin", "python")
    run(sys.executable, "-m", "venv", ask["folder"])
    # uv resolves in seconds what takes pip minutes; pip does it where uv cannot (a registry that only pip is configured for)
    try:
        run(python, *PIP, "install", "--quiet", UV)
        certificates = {"SSL_CERT_FILE": os.environ["PIP_CERT"]} if "PIP_CERT" in os.environ else {}
        run(python, "-m", "uv", "pip", "install", "--quiet", "--python", python, *ask["packages"], env={**os.environ, **certificates})
    except (RuntimeError, subprocess.TimeoutExpired):
        run(python, *PIP, "install", "--quiet", *ask["packages"])
    check(python, ask)


def make_target(ask):
    os.mkdir(ask["folder"])
    pip = [*PIP, "--python", ask["target"], "install", "--quiet", "--target", ask["folder"]]
    if ask["packages"]:
        run(sys.executable, *pip, *ask["packages"])
    if ask["unpack"]:
        run(sys.executable, *pip, "--no-deps", *ask["unpack"])


def is_good(ask):
    if not os.path.exists(os.path.join(ask["folder"], MADE)):
        return False
    if ask["kind"] == "target":
        return True
    try:
        check(os.path.join(ask["folder"], "bin", "python"), ask)
        return True
    except (RuntimeError, OSError):
        return False


def main():
    ask = json.loads(sys.argv[1])
    folder = ask["folder"]
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    lock(folder + ".lock", ask["waitSeconds"])
    if is_good(ask):
        return
    if os.path.lexists(folder):
        shutil.rmtree(folder)
    (make_venv if ask["kind"] == "venv" else make_target)(ask)
    written = os.path.join(folder, MADE + ".part")
    with open(written, "w") as out:
        json.dump({"packages": ask["packages"], "unpack": ask["unpack"], "pid": os.getpid()}, out)
        out.flush()
        os.fsync(out.fileno())
    os.rename(written, os.path.join(folder, MADE))


try:
    main()
except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
    raise SystemExit(str(error))
