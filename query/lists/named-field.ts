/** Named rewards and metrics as fields: `reward.<name>`, `metric.<name>`. Their names are the producer's, so each is a relation of its own, joined where it is used. */
import { metrics, rewards } from '../../store/columns/views/judgement-views.ts';
import { viewSelect, type ViewSource } from '../../store/columns/views/view.ts';
import type { Field } from './field.ts';
import type { Resource } from './resource.ts';
import type { Params } from './sql-params.ts';

const MAX_NAME = 1024;

/** A field of that form, or undefined. `sql` holds the place of the join until `namedSql` is asked. */
export function namedField(resource: Resource, name: string): Field | undefined {
  const [kind, label] = [name.slice(0, 7), name.slice(7)];
  if (label === '' || label.length > MAX_NAME) return undefined;
  const base = { name, type: 'float', nullable: true, wide: false } as const;
  if (kind === 'reward.' && resource.rewards !== null) {
    return { ...base, about: `the reward named ${label}`, sql: named(name) };
  }
  if (kind === 'metric.' && resource.metrics !== null) return { ...base, about: `the metric named ${label}`, sql: named(name) };
  return undefined;
}

/** A place in SQL that names the field without using its text: replaced when the statement is made. */
function named(name: string): string {
  return `/*named:${Buffer.from(name).toString('hex')}*/`;
}

const PLACE = /\/\*named:([0-9a-f]+)\*\//g;

export type NamedJoins = { readonly sql: string; readonly joins: string };

/** Gives every named field in a piece of SQL its value, and answers the joins it needs. */
export function resolveNamed(
  sql: string,
  resource: Resource,
  { source, params, where }: { readonly source: ViewSource; readonly params: Params; readonly where: string },
): NamedJoins {
  const joins = new Map<string, string>();
  const values = new Map<string, string>();
  const resolved = sql.replaceAll(PLACE, (_, hex: string) => {
    const name = Buffer.from(hex, 'hex').toString();
    const known = values.get(name);
    if (known !== undefined) return known;
    const label = params.add(name.slice(7), 'String');
    const value = resource.metrics === 'step' ? jsonNumber('v.metrics', label) : `n${joins.size}.value`;
    if (resource.metrics !== 'step') joins.set(name, joinOf(resource, name, { alias: `n${joins.size}`, label, source, where }));
    values.set(name, value);
    return value;
  });
  return { sql: resolved, joins: [...joins.values()].join(' ') };
}

type JoinParts = { readonly alias: string; readonly label: string; readonly source: ViewSource; readonly where: string };

const KEYS: Readonly<Record<string, readonly string[]>> = {
  run: ['run'],
  group: ['run', 'group'],
  rollout: ['run', 'rollout'],
  trace: ['run', 'rollout', 'trace'],
  node: ['run', 'rollout', 'trace', 'node'],
};

function joinOf(resource: Resource, name: string, { alias, label, source, where }: JoinParts): string {
  const isReward = name.startsWith('reward.');
  const scope = (isReward ? resource.rewards : resource.metrics) as string;
  const keys = KEYS[scope] as readonly string[];
  const column = isReward ? 'score' : 'value';
  const scopes = scope === 'rollout' ? "scope IN ('rollout', 'trace')" : `scope = '${scope}'`;
  const list = keys.map((key) => `\`${key}\``).join(', ');
  const on = keys.map((key) => `v.\`${key === 'node' ? 'index' : key}\` = ${alias}.\`${key}\``).join(' AND ');
  const from = viewSelect(isReward ? rewards : metrics, source);
  return (
    `LEFT JOIN (SELECT ${list}, ${foldSql(isReward, scope)} AS value FROM (SELECT ${list}, scope, ${column} AS x FROM (${from}) ` +
    `WHERE name = ${label} AND ${scopes}${where}) GROUP BY ${list}) AS ${alias} ON ${on}`
  );
}

/**
 * One value per entity. A reward of a rollout is the sum of the scores of that name over itself and its traces, null when one of them is null; a metric is that of the
 * rollout itself, or else the mean over its traces. Sums run over sorted values, so that the order of reading cannot change the last bit.
 */
function foldSql(isReward: boolean, scope: string): string {
  if (scope !== 'rollout') return 'any(x)';
  const sum = 'arraySum(arraySort(groupArray(x)))';
  return isReward
    ? `if(countIf(isNull(x)) > 0, NULL, ${sum})`
    : `multiIf(countIf(scope = 'rollout') > 0, anyIf(x, scope = 'rollout'), count(x) = 0, NULL, ${sum} / count(x))`;
}

/** A number out of JSON text, with the values that JSON lacks. */
function jsonNumber(json: string, key: string): string {
  const special = `JSONExtractString(${json}, ${key}, '$float')`;
  return (
    `multiIf(JSONType(${json}, ${key}) IN ('Double', 'Int64', 'UInt64'), JSONExtract(${json}, ${key}, 'Nullable(Float64)'), ` +
    `${special} = 'NaN', nan, ${special} = 'Infinity', inf, ${special} = '-Infinity', -inf, NULL)`
  );
}
