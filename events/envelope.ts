/** The envelope every event has. `data` is checked by the schema of its type (registry.ts). */
import { z } from 'zod';
import { entityId, eventId, micros, object } from './fields.ts';

/** Version of the envelope and of all event schemas together; old versions are lifted in upcast.ts. */
export const EVENTS_VERSION = 1;

/** Gap-free numbering by one producer: `seq` counts from 0 per (id, epoch); a higher epoch fences the lower one. */
export const producer = object({
  id: entityId,
  epoch: z.int().nonnegative().meta({ description: 'a higher epoch fences the lower one' }),
  seq: z.int().nonnegative().meta({ description: 'gap-free per (id, epoch), from 0' }),
});

export const envelope = z.looseObject({
  v: z.literal(EVENTS_VERSION),
  id: eventId.meta({ description: 'idempotency key, made by the producer: a UUID, version 7 recommended' }),
  type: z.string().min(1).max(64).meta({ description: 'one of the types below' }),
  project: entityId.optional().meta({ description: 'tenant; default when missing' }),
  run: entityId.optional(),
  group: entityId.optional(),
  rollout: entityId.optional(),
  trace: entityId.optional(),
  time: micros.meta({ description: "the producer's clock: integer microseconds since 1970 UTC" }),
  producer: producer.optional().meta({ description: 'numbering by one producer, for gaps and fencing' }),
});

export type Envelope = z.infer<typeof envelope>;

/** The entity ids an envelope may carry, widest first. */
export const SCOPE_IDS = ['run', 'group', 'rollout', 'trace'] as const;
export type ScopeId = (typeof SCOPE_IDS)[number];

export const DEFAULT_PROJECT = 'default';
