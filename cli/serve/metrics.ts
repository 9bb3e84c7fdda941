/** Prometheus metrics of the projector, from its last state. */
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { ProjectorState } from '../../store/columns/projector/state.ts';
import type { EventLog } from '../../store/log/event-log.ts';

export function createRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: 'tapedeck_' });
  return registry;
}

/** Lag, block sizes, and what became of events. Nothing is reported while the state is unknown. */
export function projectorMetrics(registry: Registry, state: () => ProjectorState | null): void {
  const registers = [registry];
  const gauge = (name: string, help: string, value: (state: ProjectorState) => number): void => {
    new Gauge({
      name: `tapedeck_projector_${name}`,
      help,
      registers,
      collect() {
        const now = state();
        if (now === null) this.reset();
        else this.set(value(now));
      },
    });
  };
  gauge('lag_events', 'Events in the log that are not in the tables yet', (s) => s.lagEvents);
  gauge('lag_seconds', 'How long the projector has been behind', (s) => s.lagSeconds);
  gauge('lag_bytes', 'Bytes not in the tables yet, estimated from the last block', (s) =>
    s.lastBlock === null || s.lastBlock.events === 0 ? 0 : Math.round((s.lagEvents * s.lastBlock.bytes) / s.lastBlock.events),
  );
  gauge('blocks', 'Blocks stored since the projector started', (s) => s.blocks);
  gauge('last_block_events', 'Events of the last block', (s) => s.lastBlock?.events ?? 0);
  gauge('last_block_bytes', 'Log bytes of the last block', (s) => s.lastBlock?.bytes ?? 0);
  gauge('last_block_ms', 'Milliseconds the last block took', (s) => s.lastBlock?.ms ?? 0);
  gauge('waiting', '1 while it waits for the store, the log or the blobs', (s) => (s.phase === 'waiting' ? 1 : 0));
  new Gauge({
    name: 'tapedeck_projector_events',
    help: 'Events since the projector started, by what became of them (dead and conflict are dead letters)',
    labelNames: ['status'],
    registers,
    collect() {
      for (const [status, count] of Object.entries(state()?.byStatus ?? {})) this.set({ status }, count);
    },
  });
}

export function logMetrics(registry: Registry, log: EventLog): void {
  new Gauge({
    name: 'tapedeck_log_bytes',
    help: 'Bytes the log keeps on disk; absent where a broker keeps them',
    registers: [registry],
    async collect() {
      const bytes = await log.sizeBytes();
      if (bytes !== null) this.set(bytes);
    },
  });
}
