/** What one dialect cannot say of another is refused by name: the field, why, and what to do instead. Fields that change no answer are left out. */
import { fail, ok, type Problem, type Result } from '../../../base/result.ts';
import type { DialectName, Json, JsonObject } from './dialect.ts';
import { isList, isObject, wordOf } from './json.ts';

type Failure = { readonly ok: false; readonly error: Problem };

/** `field` is its path in the request, or what it is in an answer. */
export function cannotTranslate(field: string, to: DialectName, why: string, remedy: string): Failure {
  return fail('cannot_translate', `${field} cannot be said in ${to}: ${why}; ${remedy}`, field);
}

/**
 * Top-level fields that say who asks, how to bill, cache, store or transport, and never change what the model sees or may answer. They are the
 * only ones left out of a translated request.
 */
const HINTS: ReadonlySet<string> = new Set([
  'metadata', 'user', 'safety_identifier', 'prompt_cache_key', 'prompt_cache_retention', 'prompt_cache_options', 'cache_control', 'service_tier', 'store',
  'betas', 'client_metadata', 'inference_geo', 'stream_options', 'priority', 'request_id', 'cache_salt', 'speed',
]); // prettier-ignore

/** True when the value asks for nothing: null, false, an empty list or object. */
export function asksNothing(value: Json | undefined): boolean {
  if (value === undefined || value === null || value === false || value === '') return true;
  return isList(value) ? value.length === 0 : isObject(value) && Object.keys(value).length === 0;
}

/** The fields of `rest` that a request of another dialect must not lose: the first one is refused. */
export function refuseRest(rest: JsonObject, to: DialectName): Result<null> {
  for (const [field, value] of Object.entries(rest)) {
    if (HINTS.has(field) || asksNothing(value) || changesNothing(field, value)) continue;
    return cannotTranslate(field, to, 'it has no such field', 'leave it out, or use an engine that speaks the same dialect');
  }
  return ok(null);
}

/** Fields that often stand in requests with a value that asks for what happens anyway. */
function changesNothing(field: string, value: Json): boolean {
  switch (field) {
    case 'include': // reasoning comes along in plain; nothing else can be had
      return isList(value) && value.every((item) => item === 'reasoning.encrypted_content');
    case 'context_management': {
      const edits = isObject(value) ? value['edits'] : undefined;
      return (
        isList(edits) &&
        edits.every((edit) => isObject(edit) && wordOf(edit['type']).startsWith('clear_thinking_') && edit['keep'] === 'all')
      );
    }
    case 'modalities':
      return isList(value) && value.every((item) => item === 'text');
    default:
      return false;
  }
}

/** Sampling parameters that `to` has no field for; those that ask for the default are not refused. */
export function refuseSampling(sampling: JsonObject, known: ReadonlySet<string>, to: DialectName): Result<null> {
  for (const [field, value] of Object.entries(sampling)) {
    if (known.has(field) || asksNothing(value) || value === NEUTRAL_DEFAULTS[field] || isDisplay(field, value)) continue;
    return cannotTranslate(field, to, 'it has no such parameter', 'leave it out, or use an engine that speaks the same dialect');
  }
  return ok(null);
}

/** How reasoning is shown, not whether or how much the model reasons. */
function isDisplay(field: string, value: Json): boolean {
  return field === 'reasoning' && isObject(value) && Object.keys(value).every((key) => key === 'summary' || key === 'generate_summary');
}

const NEUTRAL_DEFAULTS: Readonly<Record<string, Json>> = {
  n: 1,
  frequency_penalty: 0,
  presence_penalty: 0,
  repetition_penalty: 1,
  min_p: 0,
  parallel_tool_calls: true,
  min_tokens: 0,
  truncation: 'disabled',
  verbosity: 'medium',
  skip_special_tokens: true,
};
