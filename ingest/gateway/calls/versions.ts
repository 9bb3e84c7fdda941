/** Which weights sampled an answer: as the engine says, per token where its chunks say it; else as the log said at the call's start and end. */
import type { Json } from '../dialects/dialect.ts';
import { isList, isObject } from '../dialects/json.ts';
import type { PolicyRun } from '../graph/exchange.ts';
import type { UpstreamHeaders } from '../upstreams/http.ts';
import type { UpstreamSettings } from '../upstreams/settings.ts';

export type Versions = { readonly start: number | null; readonly end: number | null; runsOf(choice: number): readonly PolicyRun[] | null };

export type VersionWatch = {
  onHead(headers: UpstreamHeaders): void;
  /** The value of a document (a body or a chunk), and how many ids it brought to one choice. */
  onDocument(json: Json, choice: number | null, ids: number): void;
  /** `published`: the newest version in the log when the call began and now. */
  versions(published: { readonly start: number | null; readonly end: number | null }): Versions;
};

export function createVersionWatch({ policyVersion }: UpstreamSettings): VersionWatch {
  const path = policyVersion.field?.split('.') ?? null;
  let fromHeader: number | null = null;
  let first: number | null = null;
  let last: number | null = null;
  let isPerToken = true;
  const runs = new Map<number, { length: number; version: number }[]>();

  const add = (choice: number, length: number, version: number): void => {
    const known = runs.get(choice) ?? [];
    runs.set(choice, known);
    const end = known.at(-1);
    if (end?.version === version) end.length += length;
    else known.push({ length, version });
  };

  return {
    onHead(headers) {
      if (policyVersion.header !== undefined) fromHeader = versionOf(headers[policyVersion.header.toLowerCase()]);
    },
    onDocument(json, choice, ids) {
      if (path === null) return;
      const version = versionOf(valueAt(json, path));
      if (version !== null) {
        first ??= version;
        last = version;
      }
      if (ids === 0) return;
      if (version === null || choice === null) isPerToken = false;
      else add(choice, ids, version);
    },
    versions(published) {
      const said = fromHeader !== null || first !== null;
      return {
        start: said ? (fromHeader ?? first) : published.start,
        end: said ? (last ?? fromHeader) : published.end,
        runsOf: (choice) => (isPerToken ? (runs.get(choice) ?? null) : null),
      };
    },
  };
}

/** At the top of the document, or else in its first choice. */
function valueAt(json: Json, path: readonly string[]): Json | undefined {
  const atTop = descend(json, path);
  if (atTop !== undefined || !isObject(json) || !isList(json['choices'])) return atTop;
  return descend(json['choices'][0], path);
}

function descend(json: Json | undefined, path: readonly string[]): Json | undefined {
  return path.reduce<Json | undefined>((value, key) => (isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined), json);
}

function versionOf(value: unknown): number | null {
  const version = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof version === 'number' && Number.isSafeInteger(version) && version >= 0 ? version : null;
}
