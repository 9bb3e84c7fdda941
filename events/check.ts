/**
 * The checks of one event that need no history. The schemas are the truth; hot types have a cheap guard in front (check-fast.ts) that may
 * only accept what the schema accepts. What a schema cannot say (ids against scope, lengths of streams) follows, each with its own code.
 */
import { fail, ok, type Problem, type Result } from '../base/result.ts';
import { isPlainEnvelope, isPlainNode } from './check-fast.ts';
import { problemOf } from './check-problem.ts';
import { checkTokens, checkTrainerStreams } from './check-tokens.ts';
import { envelope, EVENTS_VERSION, type Envelope } from './envelope.ts';
import { isMap } from './fields.ts';
import { EVENT_TYPES, isEventType, type EventType, type TapedeckEvent } from './registry.ts';

type Failure = { readonly ok: false; readonly error: Problem };

/**
 * Checks a decoded value and returns it, not a copy, as an event. `unknown_type` means: the envelope is good, only the type is not known.
 * Other codes: invalid_event, missing_field, wrong_type, invalid_value, field_too_long, number_out_of_range, unsupported_version, invalid_id,
 * id_too_long, id_mismatch, time_range, parent_not_before, mask_length, is_content_length, logprobs_length, stream_length, token_id_range.
 */
export function checkEvent(value: unknown): Result<TapedeckEvent> {
  if (!isMap(value)) return fail('invalid_event', 'an event must be an object (a CBOR map)');
  const envelopeProblem = checkEnvelope(value);
  if (envelopeProblem !== null) return envelopeProblem;
  const event = value as Envelope;
  const { data } = event as { data?: unknown };
  if (data === undefined) return fail('missing_field', 'data is missing: every event has a data object', 'data');
  if (!isMap(data)) return fail('wrong_type', 'data must be an object (a CBOR map)', 'data');
  if (!isEventType(event.type))
    return fail('unknown_type', 'type is not in the list of event types (docs/events.md): fix it, or send a note.added', 'type');
  const problem = checkIds(event, event.type) ?? checkData(event.type, data) ?? checkAcross(event as TapedeckEvent);
  return problem ?? ok(event as TapedeckEvent);
}

function checkEnvelope(value: Record<string, unknown>): Failure | null {
  if (isPlainEnvelope(value)) return null;
  const { v } = value;
  if (v !== undefined && v !== EVENTS_VERSION) {
    return fail('unsupported_version', `v must be ${EVENTS_VERSION}: this server knows no other version of the event schemas`, 'v');
  }
  const parsed = envelope.safeParse(value);
  return parsed.success ? null : problemOf(parsed.error, value, []);
}

function checkIds(event: Envelope, type: EventType): Failure | null {
  for (const id of EVENT_TYPES[type].requires) {
    if (event[id] === undefined) return fail('missing_field', `${id} is missing: the envelope of ${type} must name it`, id);
  }
  return null;
}

function checkData(type: EventType, data: Record<string, unknown>): Failure | null {
  if (type === 'node.appended' && isPlainNode(data)) return null;
  const parsed = EVENT_TYPES[type].schema.safeParse(data);
  return parsed.success ? null : problemOf(parsed.error, data, ['data']);
}

function checkAcross(event: TapedeckEvent): Failure | null {
  switch (event.type) {
    case 'node.appended':
      return checkParent(event.data.parent, event.data.index) ?? (event.data.tokens ? checkTokens(event.data.tokens) : null);
    case 'rollout.started':
      return checkGroup(event.group, event.data.group?.id);
    case 'reward.assigned':
    case 'metric.recorded':
    case 'error.recorded':
    case 'note.added':
      return checkScope(event, event.data);
    case 'trainer.annotated':
      return checkTrainerStreams(event.data.streams);
    default:
      return null;
  }
}

function checkParent(parent: number | null | undefined, index: number): Failure | null {
  if (parent === null || parent === undefined || parent < index) return null;
  return fail(
    'parent_not_before',
    `data.parent must be smaller than data.index (${index}): a parent is appended before its children`,
    'data.parent',
  );
}

function checkGroup(inEnvelope: string | undefined, inData: string | undefined): Failure | null {
  if (inEnvelope === undefined || inData === undefined || inEnvelope === inData) return null;
  return fail('id_mismatch', 'data.group.id must equal the group of the envelope', 'data.group.id');
}

/** The entity that a value is about is named by the envelope; a node also by data.node. */
function checkScope(event: Envelope, data: { scope: string; node?: number | null | undefined }): Failure | null {
  const holder = data.scope === 'node' ? 'trace' : data.scope;
  if ((event as Record<string, unknown>)[holder] === undefined) {
    return fail('missing_field', `${holder} is missing: with scope ${data.scope} the envelope must name it`, holder);
  }
  if (data.scope === 'node' && (data.node === null || data.node === undefined)) {
    return fail('missing_field', 'data.node is missing: scope node needs the index of the node', 'data.node');
  }
  return null;
}
