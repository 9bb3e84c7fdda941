/** The gateway as a plugin of the server: routes of harnesses, routes that make and end rollouts, and everything they share. */
import type { FastifyPluginAsync } from 'fastify';
import type { Registry } from 'prom-client';
import { ByteBudget } from '../../base/byte-budget.ts';
import type { Clock } from '../../base/clock.ts';
import type { Random } from '../../base/random.ts';
import { uuidV7 } from '../../base/uuid.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { ACCEPT_LIMITS, type AcceptLimits } from '../accept-limits.ts';
import { createProducers } from '../accept-producers.ts';
import type { Tombstones } from '../accept-tombstones.ts';
import { INGEST_LIMITS } from '../http/limits.ts';
import { createBufferPool } from '../http/buffer-pool.ts';
import { createRolloutsAdmin, type AdminPorts } from './admin/rollouts-admin.ts';
import { registerAdminRoutes } from './admin/routes.ts';
import { createSessions } from './admin/sessions.ts';
import { createOpenStreams } from './calls/out.ts';
import { createRetryWindow } from './calls/retries.ts';
import type { ServePorts } from './calls/serve-call.ts';
import { dialectOf } from './dialects/dialects.ts';
import { PREFIXES, registerCallRoutes } from './call-routes.ts';
import { registerRelayedRoutes } from './relayed-routes.ts';
import { GATEWAY_LIMITS, type GatewayLimits } from './limits.ts';
import { createGatewayMetrics } from './metrics.ts';
import { createPolicyVersions, type PublishedPolicy } from './policy-versions.ts';
import { createRollouts } from './traces/rollouts.ts';
import { createUpstreamPool } from './upstreams/pool.ts';
import type { UpstreamSettings } from './upstreams/settings.ts';

export type GatewayOptions = {
  readonly log: EventLog;
  readonly blobs: BlobStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly tombstones: Tombstones;
  readonly registry: Registry;
  readonly secret: Uint8Array;
  readonly upstreams: readonly UpstreamSettings[];
  readonly limits?: Partial<GatewayLimits>;
  readonly acceptLimits?: Partial<AcceptLimits>;
  /** Where a rollout begins that is not in memory: from the tables. Default: not known. */
  readonly locate?: AdminPorts['locate'];
  /** Policies that the tables know, and the places from which on they do not: that stretch is read from the log. Default: the whole log is read. */
  readonly policies?: Promise<{ readonly known: readonly PublishedPolicy[]; readonly from: readonly number[] }>;
  readonly onFault?: (error: unknown) => void;
};

export type Gateway = { readonly plugin: FastifyPluginAsync; close(): Promise<void> };

/** Images that come again with every turn are stored once. */
const OPAQUE_BYTES = 4096;

/** Register `plugin` on the server; close the server first, then the gateway. */
export async function createGateway(options: GatewayOptions): Promise<Gateway> {
  const { log, blobs, clock, random, secret } = options;
  const onFault = options.onFault ?? ((): void => {});
  const limits = { ...GATEWAY_LIMITS, ...options.limits };
  const fetchBlob = (sha256: string): Promise<Uint8Array> => blobs.get(sha256);
  const bounds = await log.positions();
  const newId = (): string => uuidV7(clock, random);
  // the gateway numbers no events: the states of producers are not needed
  const producers = createProducers({ loadProducers: async () => new Map() });
  const accept = {
    log,
    blobs,
    clock,
    tombstones: options.tombstones,
    producers,
    limits: { ...ACCEPT_LIMITS, opaqueBytes: OPAQUE_BYTES, ...options.acceptLimits },
    onFailure: onFault,
  };
  const append = { accept, random, durableMs: limits.durableMs };

  const policies = createPolicyVersions({ log, fetchBlob, clock, from: bounds.map(({ end }) => end), onError: onFault });
  void followPolicies(policies, options, bounds).catch(onFault);
  const pool = createUpstreamPool({ upstreams: options.upstreams, clock });
  const streams = createOpenStreams(clock);
  const rollouts = createRollouts({ log, fetchBlob, clock, maxBytes: limits.stateBytes, startedAt: bounds.map(({ end }) => end) });
  const session = { log, rollouts, append, newId };
  const budget = new ByteBudget(limits.inFlightBytes);
  const retries = createRetryWindow({ clock, maxBytes: limits.replayBytes, keepMs: limits.replayMs });
  const metrics = createGatewayMetrics(options.registry, {
    streams: () => streams.size,
    stateBytes: () => rollouts.bytes,
    rollouts: () => rollouts.size,
    requestBytes: () => budget.used,
  });
  const serve: ServePorts = {
    append,
    clock,
    random,
    policies,
    onFault,
    limits,
    newId: (prefix) => prefix + newId().replaceAll('-', ''),
    pool,
    retries,
    dialectOf,
  };

  const plugin: FastifyPluginAsync = async (app) => {
    await app.register(async (scope) => {
      const admin = createRolloutsAdmin({ ...session, secret, locate: options.locate ?? (async () => null) });
      registerAdminRoutes(scope, { admin, secret, clock });
    });
    const body = {
      pool: createBufferPool(INGEST_LIMITS.pooledBytes),
      budget,
      clock,
      limits: { ...INGEST_LIMITS, ...limits, inflatedBytes: limits.bodyBytes },
    };
    await app.register(async (scope) => registerRelayedRoutes(scope, { pool, secret, clock, dialectOf, body, prefixes: PREFIXES }));
    await app.register(async (scope) => {
      registerCallRoutes(scope, {
        serve,
        sessions: createSessions(session),
        rollouts,
        fold: { log, fetchBlob },
        secret,
        streams,
        metrics,
        limits,
        body,
      });
    });
  };
  return {
    plugin,
    close: async () => {
      rollouts.close();
      await Promise.all([policies.close(), pool.close(), streams.close()]);
    },
  };
}

/** What was published before the process began. */
async function followPolicies(
  policies: ReturnType<typeof createPolicyVersions>,
  options: GatewayOptions,
  bounds: readonly { readonly first: number }[],
): Promise<void> {
  const { known, from } = (await options.policies) ?? { known: [], from: bounds.map(({ first }) => first) };
  policies.add(known);
  await policies.backfill(from);
}
