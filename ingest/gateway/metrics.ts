import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** What the gateway counts. Labels are closed lists. */
export type GatewayMetrics = {
  onCall(dialect: string, status: number, seconds: number): void;
  onRefused(code: string): void;
};

type Gauges = {
  readonly streams: () => number;
  readonly stateBytes: () => number;
  readonly rollouts: () => number;
  readonly requestBytes: () => number;
};

export function createGatewayMetrics(registry: Registry, gauges: Gauges): GatewayMetrics {
  const registers = [registry];
  const calls = new Counter({
    name: 'tapedeck_gateway_calls_total',
    help: 'Calls of harnesses answered, by dialect and status',
    labelNames: ['dialect', 'status'],
    registers,
  });
  const seconds = new Histogram({
    name: 'tapedeck_gateway_call_seconds',
    help: 'Time from a request to the end of its answer',
    labelNames: ['dialect'],
    buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800],
    registers,
  });
  const refused = new Counter({
    name: 'tapedeck_gateway_refused_total',
    help: 'Requests refused before a call, by code',
    labelNames: ['code'],
    registers,
  });
  const gauge = (name: string, help: string, value: () => number): void => {
    new Gauge({
      name: `tapedeck_gateway_${name}`,
      help,
      registers,
      collect() {
        this.set(value());
      },
    });
  };
  gauge('open_answers', 'Answers that are being given now', gauges.streams);
  gauge('state_bytes', 'Memory of the states of rollouts, estimated', gauges.stateBytes);
  gauge('rollouts', 'Rollouts whose state is in memory', gauges.rollouts);
  gauge('request_bytes', 'Memory of requests whose call is not recorded yet', gauges.requestBytes);
  return {
    onCall: (dialect, status, took) => {
      calls.inc({ dialect, status: String(status) });
      seconds.observe({ dialect }, took);
    },
    onRefused: (code) => refused.inc({ code }),
  };
}
