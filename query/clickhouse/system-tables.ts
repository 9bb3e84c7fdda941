/**
 * What clients read about the server, in place of the engine's own system tables: one database, `default`, with the views of the project. Each is a subquery of ours
 * that stands where the client wrote `system.<name>` or `information_schema.<name>`.
 */
import { CATALOGUE } from '../../store/columns/views/catalogue.ts';
import { stringLiteral } from '../../store/columns/sql-literal.ts';
import { CHANGEABLE } from './client-settings.ts';

/** The name under which clients see the project's database, whatever it is called in the engine. */
export const SHOWN_DATABASE = 'default';

const NO_UUID = "toUUID('00000000-0000-0000-0000-000000000000')";
const ABOUTS = `transform(name, [${CATALOGUE.map(({ name }) => stringLiteral(name)).join(', ')}], [${CATALOGUE.map(({ about }) => stringLiteral(about)).join(', ')}], '')`;
const SETTINGS = CHANGEABLE.map((name) => stringLiteral(name)).join(', ');

const NO_KEYS = "'' AS partition_key, '' AS sorting_key, '' AS primary_key, '' AS sampling_key, '' AS storage_policy";
const NO_COUNTS = ['total_rows', 'total_bytes', 'parts', 'active_parts', 'total_marks', 'lifetime_rows', 'lifetime_bytes']
  .map((name) => `CAST(NULL, 'Nullable(UInt64)') AS ${name}`)
  .join(', ');

type Source = (database: string) => string;

const tables: Source = (database) =>
  `SELECT '${SHOWN_DATABASE}' AS database, name, name AS table, ${NO_UUID} AS uuid, 'View' AS engine, toUInt8(0) AS is_temporary, CAST([], 'Array(String)') AS data_paths, '' AS metadata_path, ` +
  `metadata_modification_time, CAST([], 'Array(String)') AS dependencies_database, CAST([], 'Array(String)') AS dependencies_table, '' AS create_table_query, '' AS engine_full, '' AS as_select, ` +
  `${NO_KEYS}, ${NO_COUNTS}, ${ABOUTS} AS comment, toUInt8(0) AS has_own_data FROM system.tables AS t WHERE t.database = ${stringLiteral(database)}`;

const columns: Source = (database) =>
  `SELECT '${SHOWN_DATABASE}' AS database, table, name, type, position, '' AS default_kind, '' AS default_expression, toUInt64(0) AS data_compressed_bytes, toUInt64(0) AS data_uncompressed_bytes, ` +
  `toUInt64(0) AS marks_bytes, comment, toUInt8(0) AS is_in_partition_key, toUInt8(0) AS is_in_sorting_key, toUInt8(0) AS is_in_primary_key, toUInt8(0) AS is_in_sampling_key, '' AS compression_codec, ` +
  `character_octet_length, numeric_precision, numeric_precision_radix, numeric_scale, datetime_precision FROM system.columns AS t WHERE t.database = ${stringLiteral(database)}`;

const asItIs =
  (name: string): Source =>
  () =>
    `SELECT * FROM system.${name}`;

const upper = (sql: string, names: readonly string[]): string =>
  `SELECT *, ${names.map((name) => `${name} AS ${name.toUpperCase()}`).join(', ')} FROM (${sql})`;

const SCHEMA_TABLES = [
  'table_catalog',
  'table_schema',
  'table_name',
  'table_type',
  'table_rows',
  'data_length',
  'table_collation',
  'table_comment',
];
const SCHEMA_COLUMNS = [
  'table_catalog',
  'table_schema',
  'table_name',
  'column_name',
  'ordinal_position',
  'column_default',
  'is_nullable',
  'data_type',
  'column_type',
  'column_comment',
];

const SYSTEM: Readonly<Record<string, Source>> = {
  tables,
  columns,
  databases: () =>
    `SELECT '${SHOWN_DATABASE}' AS name, '${SHOWN_DATABASE}' AS database, 'Atomic' AS engine, '' AS data_path, '' AS metadata_path, ${NO_UUID} AS uuid, 'Atomic' AS engine_full, '' AS comment`,
  settings: () =>
    `SELECT name, value, changed, description, min, max, disallowed_values, toUInt8(0) AS readonly, type, default, '' AS alias_for, is_obsolete, tier FROM system.settings WHERE name IN (${SETTINGS})`,
  functions: asItIs('functions'),
  aggregate_function_combinators: asItIs('aggregate_function_combinators'),
  data_type_families: asItIs('data_type_families'),
  formats: asItIs('formats'),
  table_engines: asItIs('table_engines'),
  table_functions: () => "SELECT '' AS name, '' AS description WHERE 0",
  dictionaries: () => `SELECT '' AS database, '' AS name, ${NO_UUID} AS uuid, '' AS status, '' AS type, '' AS comment WHERE 0`,
  time_zones: asItIs('time_zones'),
  collations: asItIs('collations'),
  keywords: asItIs('keywords'),
  one: asItIs('one'),
  numbers: asItIs('numbers'),
  clusters: () => "SELECT '' AS cluster, toUInt32(0) AS shard_num, toUInt32(0) AS replica_num, '' AS host_name WHERE 0",
};

const INFORMATION_SCHEMA: Readonly<Record<string, Source>> = {
  schemata: () =>
    upper(`SELECT '${SHOWN_DATABASE}' AS catalog_name, '${SHOWN_DATABASE}' AS schema_name, '${SHOWN_DATABASE}' AS schema_owner`, [
      'catalog_name',
      'schema_name',
      'schema_owner',
    ]),
  tables: (database) =>
    upper(
      `SELECT database AS table_catalog, database AS table_schema, name AS table_name, 'VIEW' AS table_type, total_rows AS table_rows, total_bytes AS data_length, CAST(NULL, 'Nullable(String)') AS table_collation, comment AS table_comment FROM (${tables(database)})`,
      SCHEMA_TABLES,
    ),
  columns: (database) =>
    upper(
      `SELECT database AS table_catalog, database AS table_schema, table AS table_name, name AS column_name, position AS ordinal_position, '' AS column_default, if(startsWith(type, 'Nullable'), 'YES', 'NO') AS is_nullable, type AS data_type, type AS column_type, comment AS column_comment FROM (${columns(database)})`,
      SCHEMA_COLUMNS,
    ),
};

export type SystemTable = {
  readonly name: string;
  /** What columns are qualified with. */
  readonly alias: string;
  readonly source: Source;
};

/** Null: no such table, or one that would tell about the server or other projects. */
export function systemTable(schema: string, table: string): SystemTable | null {
  const lower = schema.toLowerCase();
  const from = lower === 'information_schema' ? INFORMATION_SCHEMA : SYSTEM;
  const key = lower === 'information_schema' ? table.toLowerCase() : table;
  return Object.hasOwn(from, key) ? { name: `${lower}_${key}`, alias: key, source: from[key] as Source } : null;
}
