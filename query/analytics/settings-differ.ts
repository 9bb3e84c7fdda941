/** What was different about how two sides were sampled: a difference in scores may come from there. */
import type { Selection } from './evaluation.ts';
import type { Reader } from './reader.ts';
import type { Warning } from './warning.ts';

/** Values seen on one side, each as text; sorted. */
export type Settings = Readonly<Record<string, readonly string[]>>;

export type SettingDifference = { readonly setting: string; readonly base: readonly string[]; readonly other: readonly string[] };

/** Parts of sampling that differ from call to call by intent. */
const PER_CALL = new Set(['seed', 'n', 'stream', 'user', 'request_id']);
/** Values of one setting that are told; the comparison uses all. */
const MAX_TOLD = 20;

/** Sampling parameters, tokenizer, template and tools of a side. */
export async function readSettings(reader: Reader, { run, policyVersion }: Selection): Promise<Settings> {
  const ofVersion = policyVersion === undefined ? '' : ' AND (policy_version = {version:UInt64} OR isNull(policy_version))';
  const params = policyVersion === undefined ? { run } : { run, version: policyVersion };
  const [calls, tools] = await Promise.all([
    reader.rows<{ sampling: string | null; tokenizer: string | null; template: string | null }>(
      `SELECT DISTINCT sampling, tokenizer_hash AS tokenizer, template_hash AS template FROM calls FINAL WHERE ${reader.within()} AND run = {run:String} AND isNull(error_type)${ofVersion} LIMIT 10000`,
      params,
    ),
    reader.rows<{ tools: string }>(
      `SELECT DISTINCT JSONExtractRaw(data, 'tools') AS tools FROM trace_payloads FINAL WHERE ${reader.within()} AND run = {run:String} AND type = 'trace.started' LIMIT 1000`,
      { run },
    ),
  ]);
  const seen = new Map<string, Set<string>>();
  const add = (setting: string, value: string): void => void (seen.get(setting) ?? seen.set(setting, new Set()).get(setting))?.add(value);
  for (const { sampling, tokenizer, template } of calls) {
    if (tokenizer !== null) add('tokenizer', tokenizer);
    if (template !== null) add('template', template);
    for (const [name, value] of samplingOf(sampling)) add(`sampling.${name}`, value);
  }
  for (const row of tools) if (row.tools !== '') add('tools', row.tools);
  return Object.fromEntries([...seen].map(([setting, values]) => [setting, [...values].toSorted()]));
} // prettier-ignore

function samplingOf(text: string | null): [string, string][] {
  if (text === null) return [];
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed !== 'object' || parsed === null) return [];
    return Object.entries(parsed).flatMap(([name, value]) =>
      PER_CALL.has(name) ? [] : [[name, JSON.stringify(value)] as [string, string]],
    );
  } catch {
    return [];
  }
}

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
