/**
 * Guards that accept the common shape of hot events at a tenth of the schema's cost. They may only ever say yes where the schema says yes
 * (a property test compares them); everything else, unusual or wrong, goes to the schema, which also words the problem.
 */
import { isUuid } from '../base/uuid.ts';
import { EVENTS_VERSION } from './envelope.ts';
import { isMap, MAX_ID_BYTES, MAX_MICROS } from './fields.ts';
import { PackedArray, type Dtype } from './packed-array.ts';

const MAX_NODE_INDEX = 0xffff_fffe;

export function isPlainEnvelope(e: Record<string, unknown>): boolean {
  const { id, type, time } = e;
  return (
    e['v'] === EVENTS_VERSION &&
    typeof id === 'string' &&
    isUuid(id) &&
    typeof type === 'string' &&
    type.length > 0 &&
    type.length <= 64 &&
    isIndex(time, MAX_MICROS) &&
    isPlainId(e['project']) &&
    isPlainId(e['run']) &&
    isPlainId(e['group']) &&
    isPlainId(e['rollout']) &&
    isPlainId(e['trace']) &&
    isPlainProducer(e['producer'])
  );
}

export function isPlainNode(data: Record<string, unknown>): boolean {
  const { index, parent, role, message, sampled, tokens } = data;
  return (
    isIndex(index, MAX_NODE_INDEX) &&
    isAbsentOr(parent, isNodeIndex) &&
    typeof role === 'string' &&
    role.length > 0 &&
    role.length <= 64 &&
    isAbsentOr(message, isMap) &&
    typeof sampled === 'boolean' &&
    isAbsentOr(tokens, isPlainTokens) &&
    isAbsentOr(data['policyVersion'], isCount) &&
    isAbsentOr(data['call'], isNodeIndex) &&
    isAbsent(data['forkReason']) &&
    isAbsent(data['tokenError']) &&
    isAbsent(data['attribution']) &&
    isAbsentOr(data['partial'], isBoolean) &&
    isAbsent(data['toolsHash']) &&
    data['extra'] === undefined
  );
}

function isPlainTokens(tokens: unknown): boolean {
  return (
    isMap(tokens) &&
    isStream(tokens['ids'], 'u32') &&
    isStream(tokens['mask'], 'u8') &&
    (isAbsent(tokens['isContent']) || isStream(tokens['isContent'], 'u8')) &&
    (isAbsent(tokens['logprobs']) || isStream(tokens['logprobs'], 'f32')) &&
    isAbsent(tokens['referenceLogprobs']) &&
    isAbsent(tokens['advantages']) &&
    isAbsent(tokens['lossWeights']) &&
    isAbsent(tokens['policyRuns']) &&
    isAbsent(tokens['routedExperts']) &&
    isAbsent(tokens['topLogprobs'])
  );
}

function isPlainProducer(producer: unknown): boolean {
  if (producer === undefined) return true;
  return (
    isMap(producer) && producer['id'] !== undefined && isPlainId(producer['id']) && isCount(producer['epoch']) && isCount(producer['seq'])
  );
}

/** Absent, or 1 to 85 UTF-16 units, which no encoding can make longer than 256 bytes. */
function isPlainId(id: unknown): boolean {
  return id === undefined || (typeof id === 'string' && id.length > 0 && id.length * 3 <= MAX_ID_BYTES && id.isWellFormed());
}

function isIndex(value: unknown, max: number): boolean {
  return typeof value === 'number' && value >= 0 && value <= max && Number.isInteger(value);
}

function isNodeIndex(value: unknown): boolean {
  return isIndex(value, MAX_NODE_INDEX);
}

function isCount(value: unknown): boolean {
  return isIndex(value, Number.MAX_SAFE_INTEGER);
}

function isBoolean(value: unknown): boolean {
  return typeof value === 'boolean';
}

function isStream(value: unknown, dtype: Dtype): boolean {
  return value instanceof PackedArray && value.dtype === dtype;
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null;
}

function isAbsentOr(value: unknown, guard: (value: unknown) => boolean): boolean {
  return value === undefined || value === null || guard(value);
}
