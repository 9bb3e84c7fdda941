import { fixedString, label, uuid } from '../native/column-types.ts';
import { table } from '../native/table-block.ts';
import { position } from './shared-columns.ts';

/** The de-duplication index: where the event of a project with this id was first stored, and the hash of its content. */
export const eventIds = table('event_ids', {
  id: uuid,
  hash: fixedString(16),
  ...position,
  project: label,
});
