/** Narrows reads of a run's facts to the rollouts a question is about. */
import { TapedeckError } from '../../base/errors.ts';
import { stringLiteral } from '../../store/columns/sql-literal.ts';

/** Characters of ids in one statement. */
const MAX_CHARS = 3_000_000;

/**
 * ` AND rollout IN …`, or nothing where the question is about the whole run. Ids travel as one literal in the body: parameters would go into the address, and a
 * list of literals costs the planner more than the read.
 */
export function amongRollouts(rollouts: readonly string[] | null): string {
  if (rollouts === null) return '';
  const list = JSON.stringify(rollouts);
  if (list.length > MAX_CHARS) {
    throw new TapedeckError('result_too_large', `${rollouts.length} rollouts are too many to pick out of their run: widen the question to the whole run, or narrow it further`, {
      details: { rollouts: rollouts.length },
    });
  }
  return ` AND rollout GLOBAL IN (SELECT arrayJoin(JSONExtract(${stringLiteral(list)}, 'Array(String)')))`;
} // prettier-ignore
