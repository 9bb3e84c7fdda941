/** Relations that are joined only when a query uses one of their fields. */
import { traces } from '../../store/columns/views/run-views.ts';
import { batchRows } from '../../store/columns/views/trainer-views.ts';
import { viewSelect, type ViewSource } from '../../store/columns/views/view.ts';
import type { JoinName } from './field.ts';
import type { ResourceName } from './resource.ts';

const LATE = "toDateTime64('2200-01-01 00:00:00', 6, 'UTC')";

/** `where` narrows the relation to what the query demands of run and rollout. */
export function joinSql(name: JoinName, resource: ResourceName, source: ViewSource, where: string): string {
  if (name === 'agent') {
    return (
      `LEFT JOIN (SELECT run, rollout, argMinIf(tuple(agent, model), (ifNull(started, ${LATE}), trace), ifNull(trainable, true)) AS first ` +
      `FROM (${viewSelect(traces, source)}) WHERE true${where} GROUP BY run, rollout) AS agent ON v.run = agent.run AND v.rollout = agent.rollout`
    );
  }
  const keys = resource === 'traces' ? ['run', 'rollout', 'trace'] : ['run', 'rollout'];
  const list = keys.map((key) => `assumeNotNull(${key}) AS ${key}`).join(', ');
  return (
    `LEFT JOIN (SELECT ${keys.join(', ')}, if(count(x) = 0, NULL, arraySum(arraySort(groupArray(x))) / count(x)) AS advantage, max(s) AS staleness, max(t) AS step ` +
    `FROM (SELECT ${list}, advantage AS x, staleness AS s, step AS t FROM (${viewSelect(batchRows, source)}) WHERE NOT abandoned${where}) GROUP BY ${keys.join(', ')}) AS training ` +
    `ON ${keys.map((key) => `v.${key} = training.${key}`).join(' AND ')}`
  );
}
