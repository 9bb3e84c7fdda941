/** What was different about how two sides were sampled: a difference in scores may come from there. */
import type { Selection } from './evaluation.ts';
import type { Reader } from './reader.ts';
import type { Warning } from './warning.ts';

/** Values seen on one side, each as text; sorted. */
export type Settings = Readonly<Record<string, readonly string[]>>;

export type SettingDifference = { readonly setting: string; readonly base: readonly string[]; readonly other: readonly string[] };

/** Parts of sampling that differ from call to call by intent. */
const PER_CALL = "'seed', 'n', 'stream', 'user', 'request_id'";
/** Values of one setting that are told; the comparison uses all. */
const MAX_TOLD = 20;

/** Sampling parameters, tokenizer, template and tools of a side. */
export async function readSettings(reader: Reader, { run, policyVersion }: Selection): Promise<Settings> {
  const ofVersion = policyVersion === undefined ? '' : ' AND (policy_version = {version:UInt64} OR isNull(policy_version))';
  const params = policyVersion === undefined ? { run } : { run, version: policyVersion };
  const calls = `FROM calls FINAL WHERE ${reader.within()} AND run = {run:String} AND isNull(error_type)${ofVersion}`;
  const rows = await reader.rows<{ setting: string; value: string }>(
    `SELECT DISTINCT concat('sampling.', pair.1) AS setting, pair.2 AS value FROM (SELECT arrayJoin(JSONExtractKeysAndValuesRaw(ifNull(sampling, '{}'))) AS pair ${calls}) WHERE pair.1 NOT IN (${PER_CALL})
     UNION ALL SELECT DISTINCT 'tokenizer' AS setting, assumeNotNull(tokenizer_hash) AS value ${calls} AND isNotNull(tokenizer_hash)
     UNION ALL SELECT DISTINCT 'template' AS setting, assumeNotNull(template_hash) AS value ${calls} AND isNotNull(template_hash)
     UNION ALL SELECT DISTINCT 'tools' AS setting, JSONExtractRaw(data, 'tools') AS value FROM trace_payloads FINAL WHERE ${reader.within()} AND run = {run:String} AND type = 'trace.started' AND value != ''`,
    params,
  );
  const seen = Map.groupBy(rows, (row) => row.setting);
  return Object.fromEntries([...seen].map(([setting, values]) => [setting, [...new Set(values.map(({ value }) => value))].toSorted()]));
} // prettier-ignore

/** Settings that both sides recorded with other values, and those that only one recorded. */
export function differingSettings(base: Settings, other: Settings): SettingDifference[] {
  const names = [...new Set([...Object.keys(base), ...Object.keys(other)])].toSorted();
  return names.flatMap((setting) => {
    const [left, right] = [base[setting] ?? [], other[setting] ?? []];
    if (left.length === right.length && left.every((value, place) => value === right[place])) return [];
    return [{ setting, base: left.slice(0, MAX_TOLD), other: right.slice(0, MAX_TOLD) }];
  });
}

export function settingsWarning(differences: readonly SettingDifference[]): Warning[] {
  if (differences.length === 0) return [];
  const told = differences.map(({ setting, base, other }) => {
    const short = (values: readonly string[]): string => (values.length === 0 ? 'not recorded' : values.map((value) => (value.length > 40 ? `${value.slice(0, 40)}…` : value)).join(' | '));
    return setting === 'tools' ? 'tools' : `${setting} (${short(base)} against ${short(other)})`;
  });
  return [{ code: 'settings_differ', message: `the sides were not run alike: ${told.join('; ')}. A difference in scores may come from there` }];
} // prettier-ignore
