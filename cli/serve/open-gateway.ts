/** The gateway that the settings describe, with what the tables know: policies published before, and where a rollout begins. */
import { readFileSync } from 'node:fs';
import type { Registry } from 'prom-client';
import type { Logger } from 'pino';
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import type { Tombstones } from '../../ingest/accept-tombstones.ts';
import { createGateway, type Gateway } from '../../ingest/gateway/gateway.ts';
import type { PublishedPolicy } from '../../ingest/gateway/policy-versions.ts';
import { loadSecret } from '../../ingest/gateway/secret.ts';
import { readUpstreams, type UpstreamSettings } from '../../ingest/gateway/upstreams/settings.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { storedPositions } from '../../store/columns/stored-positions.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { environmentVariable, paths, type Config } from '../config.ts';
import type { Columns } from './columns.ts';

type Parts = {
  readonly log: EventLog;
  readonly blobs: BlobStore;
  readonly columns: Columns;
  readonly tombstones: Tombstones;
  readonly registry: Registry;
};
type Deps = { readonly clock: Clock; readonly random: Random; readonly logger: Logger };

export async function openGateway(config: Config, parts: Parts, { clock, random, logger }: Deps): Promise<Gateway> {
  const { columns } = parts;
  return createGateway({
    ...parts,
    clock,
    random,
    secret: await loadSecret(paths(config).gatewaySecret, config.gatewaySecret),
    upstreams: configuredUpstreams(config),
    limits: {
      bodyBytes: config.maxBodyBytes,
      bodyMs: config.bodyTimeoutMs,
      inFlightBytes: config.gatewayInFlightBytes,
      keepAliveMs: config.gatewayKeepAliveMs,
      stallMs: config.gatewayStallMs,
    },
    acceptLimits: { eventBytes: config.maxEventBytes, valueBytes: config.inlineBytes },
    locate: (project, rollout, partition) => locate(columns.store, project, rollout, partition),
    policies: columns.opened.then(() => publishedPolicies(columns.store, parts.log.partitions)),
    onFault: (error) => logger.error({ err: error, part: 'gateway' }, 'the gateway could not do what it should'),
  });
}

/** The setting is JSON, or the path of a file that holds it. Throws `config_invalid` and names every bad field. */
export function configuredUpstreams({ upstreams }: Pick<Config, 'upstreams'>): readonly UpstreamSettings[] {
  if (upstreams === undefined) return [];
  const text = upstreams.trimStart().startsWith('{') ? upstreams : readUpstreamsFile(upstreams);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new TapedeckError('config_invalid', 'TAPEDECK_UPSTREAMS is no JSON', { cause });
  }
  const read = readUpstreams(value, environmentVariable);
  if (!read.ok) throw new TapedeckError('config_invalid', `TAPEDECK_UPSTREAMS: ${read.error.message}`);
  return read.value;
}

function readUpstreamsFile(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new TapedeckError('config_invalid', `TAPEDECK_UPSTREAMS names the file ${path}, which cannot be read`, { cause });
  }
}

/** The newest policy of each run as of the stored positions, from which on the log says what follows. */
async function publishedPolicies(store: ColumnStore, partitions: number): Promise<{ known: PublishedPolicy[]; from: number[] }> {
  const { signal } = new AbortController();
  const stored = await storedPositions(store, { signal });
  const rows = await store.rows<{ project: string; run: string; version: string; newest: string }>(NEWEST_POLICIES, { signal });
  const known = rows.map((row) => ({
    project: row.project,
    run: row.run === '' ? null : row.run,
    version: Number(row.version),
    time: Number(row.newest),
  }));
  return { known, from: Array.from({ length: partitions }, (_, partition) => stored.get(partition) ?? 0) };
}

const NEWEST_POLICIES =
  'SELECT project, run, argMax(version, (time, _offset)) AS version, toUnixTimestamp64Micro(max(time)) AS newest FROM policies GROUP BY project, run';

/** Where the rollout's events begin; when the tables do not know it yet, the place behind which it must be. Null while they cannot be asked. */
async function locate(store: ColumnStore, project: string, rollout: string, partition: number): Promise<number | null> {
  const { signal } = new AbortController();
  try {
    const [row] = await store.rows<{ offset: string | null }>(LOCATE, { params: { project, rollout, partition }, signal });
    if (row?.offset != null) return Number(row.offset);
    return (await storedPositions(store, { signal })).get(partition) ?? 0;
  } catch {
    return null;
  }
}

const LOCATE =
  'SELECT toNullable(min(_offset)) AS offset FROM log_index WHERE project = {project:String} AND rollout = {rollout:String} AND _partition = {partition:UInt16} HAVING count() > 0';
