"""Sends OTLP/HTTP spans to an MLflow server that it starts on loopback, in an empty folder with SQLite, and prints one JSON object.

One span per model call: 2 KB of message text, 512 token ids and 512 log-probabilities as JSON strings, 100 spans a request, 2 connections, closed loop.
accepted = spans / time until the last 200; queryable = spans / time until MLflow's own search API counts all traces. CPU and memory are those of the server's
process tree. MLflow's job workers, which take no part, are off. Usage: mlflow_otlp.py --spans 3000"""
import argparse, http.client, json, os, random, shutil, signal, socket, subprocess, sys, tempfile, threading, time

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PER_REQUEST, PER_TRACE, TOKENS, TEXT_BYTES, CONNECTIONS = 100, 10, 512, 2048, 2
START_SECONDS, COUNT_SECONDS = 180, 300
WORDS = "the model reads a tool result then writes one short plan and calls search with the query string because reward depends on the answer".split()


def text(rng, size):
    out = ""
    while len(out) < size:
        out += rng.choice(WORDS) + " "
    return out[:size]


def body(seed, start_ns):
    rng = random.Random(seed)
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    scope = resource.scope_spans.add()
    root = trace = None
    for i in range(PER_REQUEST):
        span = scope.spans.add()
        if i % PER_TRACE == 0:
            trace, root = rng.getrandbits(128).to_bytes(16, "big"), None
        span.trace_id, span.span_id = trace, rng.getrandbits(64).to_bytes(8, "big")
        if root is None:
            root = span.span_id
        else:
            span.parent_span_id = root
        span.name, span.kind = "chat policy", 3
        span.start_time_unix_nano = start_ns + i * 1_000_000
        span.end_time_unix_nano = span.start_time_unix_nano + 900_000
        ids = [rng.randrange(150_000) for _ in range(TOKENS)]
        logprobs = [round(-rng.expovariate(2.0), 6) for _ in range(TOKENS)]
        attributes = {
            "gen_ai.operation.name": "chat", "gen_ai.request.model": "policy",
            "llm.input_messages.0.message.content": text(rng, TEXT_BYTES // 2), "llm.output_messages.0.message.content": text(rng, TEXT_BYTES // 2),
            "rl.token_ids": json.dumps(ids, separators=(",", ":")), "rl.logprobs": json.dumps(logprobs, separators=(",", ":")),
        }
        for key, value in attributes.items():
            attribute = span.attributes.add()
            attribute.key, attribute.value.string_value = key, value
    return request.SerializeToString()


def tree(pid):
    try:
        children = [int(c) for task in os.listdir(f"/proc/{pid}/task") for c in open(f"/proc/{pid}/task/{task}/children").read().split()]
    except OSError:
        children = []
    return [pid] + [p for child in children for p in tree(child)]


def cpu_seconds(pid):
    ticks = 0
    for each in tree(pid):
        try:
            fields = open(f"/proc/{each}/stat").read().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        except OSError:
            pass
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_mib(pid):
    total = 0
    for each in tree(pid):
        try:
            total += next(int(line.split()[1]) for line in open(f"/proc/{each}/status") if line.startswith("VmRSS"))
        except (OSError, StopIteration):
            pass
    return total / 1024


def ask(port, method, path, value=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, path, None if value is None else json.dumps(value), {"content-type": "application/json"})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    if answer.status >= 300:
        raise RuntimeError(f"{path} answered {answer.status}: {data[:300]!r}")
    return data


def wait_for(port, server):
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if server.poll() is not None:
            raise RuntimeError(f"mlflow ended with {server.returncode}")
        try:
            ask(port, "GET", "/health")
            return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError(f"mlflow did not start within {START_SECONDS} s")


def count_spans(port, experiment):
    traces, token = 0, None
    while True:
        query = {"locations": [{"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment}}], "max_results": 500}
        page = json.loads(ask(port, "POST", "/api/3.0/mlflow/traces/search", {**query, **({"page_token": token} if token else {})}))
        traces += len(page.get("traces", []))
        token = page.get("next_page_token")
        if not token:
            return traces * PER_TRACE


def send_all(port, experiment, bodies):
    waiting, lock, failures = iter(bodies), threading.Lock(), []

    def work():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        while True:
            with lock:
                one = next(waiting, None)
            if one is None:
                break
            connection.request("POST", "/v1/traces", one, {"content-type": "application/x-protobuf", "x-mlflow-experiment-id": experiment})
            answer = connection.getresponse()
            answer.read()
            if answer.status >= 300:
                failures.append(answer.status)
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--spans", type=int, default=3000)
    spans = parser.parse_args().spans
    folder = tempfile.mkdtemp(prefix="tapedeck-mlflow-")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    env["PATH"] = os.path.dirname(sys.executable) + os.pathsep + env.get("PATH", "")
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/artifacts"]
    with open(f"{folder}/log", "wb") as log:
        server = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for(port, server)
        experiment = json.loads(ask(port, "POST", "/api/2.0/mlflow/experiments/create", {"name": "bench"}))["experiment_id"]
        start_ns = time.time_ns() - 3_600_000_000_000
        bodies = [body(i, start_ns + i * 1_000_000_000) for i in range(spans // PER_REQUEST)]
        sent = len(bodies) * PER_REQUEST
        cpu, started = cpu_seconds(server.pid), time.monotonic()
        failures = send_all(port, experiment, bodies)
        accepted = time.monotonic() - started
        while count_spans(port, experiment) < sent and time.monotonic() - started < COUNT_SECONDS:
            time.sleep(0.5)
        queryable = time.monotonic() - started
        disk = sum(os.path.getsize(os.path.join(where, name)) for where, _, names in os.walk(folder) for name in names if name != "log")
        print(json.dumps({
            "spans": sent, "failures": failures, "accepted/s": sent / accepted, "queryable/s": sent / queryable,
            "CPU us/span": (cpu_seconds(server.pid) - cpu) * 1e6 / sent, "bytes/span": disk / sent, "RSS MiB": resident_mib(server.pid),
        }))
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


main()
