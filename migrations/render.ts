/**
 * Turns a migration file into statements. One set of files serves a single node and a cluster, through macros:
 *
 *   {{database}}           creates the database
 *   {{table x}}            the table that holds data: db.x, on a cluster db.x_local … ON CLUSTER; of an engine {{everywhere}} db.x there too
 *   {{engine v}}           ReplacingMergeTree(v), on a cluster replicated per shard
 *   {{everywhere v}}       the same, on a cluster replicated to every node of every shard (small tables that all shards need): read and written wherever one is
 *   {{settings}}           settings every table has
 *   {{payload_settings}}   settings of tables with wide rows
 *   {{distributed x key}}  on a cluster the Distributed table db.x over x_local, sharded by the log's hash of `key`; nothing on a single node, and without a key (an engine {{everywhere}})
 *   {{whole x}}            the table that is read and written: db.x, on a cluster the one over all shards
 *   {{alter x}}            "ALTER TABLE db.x", on a cluster for x_local and for the Distributed table
 */
import { TapedeckError } from '../base/errors.ts';

export type SchemaTarget = {
  readonly database: string;
  readonly cluster: { readonly name: string } | null;
  /** `by part size` leaves it to the engine's configuration; the default is ZSTD(1) everywhere. */
  readonly compression?: 'zstd' | 'by part size';
};

const MACRO = /\{\{(\w+)((?: \w+)*)\}\}/g;

/** Deduplication of inserts is off: tables are idempotent by key, and a remembered insert could swallow a redo. */
const SETTINGS = 'non_replicated_deduplication_window = 0';
const REPLICATED_SETTINGS = 'replicated_deduplication_window = 0';
const ZSTD = "default_compression_codec = 'ZSTD(1)', ";
/**
 * Payloads are read by key and never scanned: one file per part instead of two per column (making 90 files costs more than writing the rows), and parts that
 * are merged once, not at every size (each merge compresses everything anew).
 */
const PAYLOAD_SETTINGS =
  'min_bytes_for_wide_part = 1073741824, min_parts_to_merge_at_once = 12, max_bytes_to_merge_at_max_space_in_pool = 536870912';

export function renderStatements(sql: string, target: SchemaTarget): string[] {
  return splitStatements(sql)
    .flatMap((statement) => renderOne(statement, target))
    .filter((statement) => statement !== '');
}

/** Statements end with a semicolon at the end of a line; lines that begin with -- are comments. */
function splitStatements(sql: string): string[] {
  const code = sql.replaceAll(/^--.*\n/gm, '');
  return code
    .split(/;[ \t]*(?:\n|$)/)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '');
}

function renderOne(statement: string, target: SchemaTarget): string[] {
  const forms = statement.includes('{{alter ') && target.cluster !== null ? (['local', 'distributed'] as const) : (['local'] as const);
  return forms.map((form) => {
    const table = /\{\{(?:table|alter) (\w+)\}\}/.exec(statement)?.[1] ?? '';
    return statement.replaceAll(MACRO, (whole, name: string, words: string) => {
      const [first = '', second = ''] = words.trim().split(' ');
      switch (name) {
        case 'database':
          return `CREATE DATABASE IF NOT EXISTS ${quote(target.database)}${onCluster(target)}`;
        case 'table':
          return tableName(first, target, statement.includes('{{everywhere'));
        case 'whole':
          return `${quote(target.database)}.${first}`;
        case 'alter':
          return `ALTER TABLE ${form === 'local' ? tableName(first, target, false) : `${quote(target.database)}.${first}${onCluster(target)}`}`;
        case 'engine':
          return engine(table, '{shard}', '{replica}', first, target);
        case 'everywhere':
          return engine(table, 'all', '{shard}-{replica}', first, target);
        case 'settings':
          return `${target.compression === 'by part size' ? '' : ZSTD}${target.cluster === null ? SETTINGS : REPLICATED_SETTINGS}`;
        case 'payload_settings':
          return PAYLOAD_SETTINGS;
        case 'distributed':
          return distributed(first, second, target);
        default:
          throw new TapedeckError('internal', `unknown macro ${whole} in a migration`);
      }
    });
  });
}

function tableName(table: string, target: SchemaTarget, isEverywhere: boolean): string {
  const { database, cluster } = target;
  return `${quote(database)}.${table}${cluster === null || isEverywhere ? '' : '_local'}${onCluster(target)}`;
}

function onCluster({ cluster }: SchemaTarget): string {
  return cluster === null ? '' : ` ON CLUSTER ${quote(cluster.name)}`;
}

function engine(table: string, shard: string, replica: string, version: string, target: SchemaTarget): string {
  if (target.cluster === null) return version === '' ? 'ReplacingMergeTree' : `ReplacingMergeTree(${version})`;
  const path = `/clickhouse/tables/${shard}/${target.database}/${table}`;
  return `ReplicatedReplacingMergeTree('${path}', '${replica}'${version === '' ? '' : `, ${version}`})`;
}

/** All tables of a rollout share one sharding expression, the hash the log partitions by. */
function distributed(table: string, key: string, target: SchemaTarget): string {
  const { database, cluster } = target;
  if (cluster === null || key === '') return '';
  const local = `${quote(database)}.${table}_local`;
  const shard = `kafkaMurmurHash(toString(${key}))`;
  return `CREATE TABLE IF NOT EXISTS ${quote(database)}.${table}${onCluster(target)} AS ${local} ENGINE = Distributed(${quote(cluster.name)}, ${quote(database)}, ${table}_local, ${shard})`;
}

/** An identifier in back-quotes. */
export function quote(identifier: string): string {
  return `\`${identifier.replaceAll(/[`\\]/g, (c) => `\\${c}`)}\``;
}
