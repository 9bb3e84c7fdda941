/** The cookbook: questions people ask of their runs, each with the SQL that answers it. docs/sql-cookbook.md is made from this file and the answers on the sample data. */
export type Recipe = { readonly asks: string; readonly note?: string; readonly sql: string };

const sql = (parts: TemplateStringsArray): string => (parts[0] as string).trim().replaceAll(/\n {6}/g, '\n');

export const RECIPES: readonly (readonly [chapter: string, recipes: readonly Recipe[]])[] = [
  ['Learning', [
    { asks: 'Does the run learn? Reward by step and environment.', sql: sql`
      SELECT step, env, round(avg(reward), 3) AS reward, count() AS rollouts
      FROM rollouts WHERE run = 'maths' GROUP BY step, env ORDER BY env, step` },
    { asks: 'Where does the reward come from?', note: 'A reward is a named score with a weight; what it adds is their product.', sql: sql`
      SELECT r.name, round(avg(r.score), 3) AS score, any(r.weight) AS weight, round(avg(r.score * r.weight), 3) AS adds
      FROM rewards AS r WHERE r.run = 'maths' GROUP BY r.name ORDER BY adds DESC` },
    { asks: 'Which groups can teach nothing, since all their rollouts did the same?', note: 'Advantages over the group are 0 there.', sql: sql`
      SELECT step, countIf(solved = 0) AS none, countIf(solved > 0 AND solved < 1) AS some, countIf(solved = 1) AS all
      FROM (SELECT any(step) AS step, avg(correct) AS solved FROM
        (SELECT x.step AS step, x.group AS g, r.score AS correct FROM rollouts AS x JOIN rewards AS r USING (run, rollout) WHERE x.run = 'maths' AND r.name = 'correct')
        GROUP BY g)
      GROUP BY step ORDER BY step` },
    { asks: 'How do loss, KL and entropy go?', note: 'Metrics of a step are JSON text.', sql: sql`
      SELECT step, round(JSONExtractFloat(metrics, 'loss'), 3) AS loss, JSONExtractFloat(metrics, 'kl') AS kl, JSONExtractFloat(metrics, 'entropy') AS entropy
      FROM trainer_steps WHERE run = 'maths' ORDER BY step` },
    { asks: 'How sure was the policy of what it sampled?', note: 'exp of minus the mean log-probability is the perplexity of its own samples.', sql: sql`
      SELECT policy_version, round(exp(-arrayAvg(groupArrayArray(logprobs))), 3) AS perplexity, sum(sampled_tokens) AS tokens
      FROM nodes WHERE run = 'maths' AND sampled GROUP BY policy_version ORDER BY policy_version` },
    { asks: 'When were weights published, and how long did each step take?', sql: sql`
      SELECT version, formatDateTime(time, '%T') AS at, dateDiff('second', lagInFrame(toNullable(time)) OVER (ORDER BY version), time) AS seconds
      FROM policies WHERE run = 'maths' ORDER BY version` },
  ]],
  ['Staleness and what was trained', [
    { asks: 'How stale was what each step trained on?', note: 'Staleness is the step minus one minus the oldest version that sampled the row.', sql: sql`
      SELECT step, avg(staleness) AS mean, max(staleness) AS worst, countIf(staleness > 0) AS late, count() AS rows
      FROM batch_rows WHERE feed = 'main' AND NOT abandoned GROUP BY step ORDER BY step` },
    { asks: 'How many tokens were trained for each environment?', sql: sql`
      SELECT env, sum(trained) AS tokens, round(sum(trained) / sum(seq_len), 3) AS share_of_sequence
      FROM batch_rows WHERE feed = 'main' AND step IS NOT NULL AND NOT abandoned GROUP BY env ORDER BY env` },
    { asks: 'From a step to its tokens: what did a row of step 3 train on?', note: 'The row names the leaf; the nodes from the root to it hold the tokens.', sql: sql`
      SELECT r.row_id, r.leaf, round(r.advantage, 3) AS advantage, n.index, n.role, length(n.token_ids) AS tokens, arraySum(n.mask) AS trained
      FROM batch_rows AS r JOIN nodes AS n ON n.run = r.run AND n.rollout = r.rollout AND n.trace = r.trace
      WHERE r.feed = 'main' AND r.step = 3 AND r.row_id = 'row-code-3-0' AND n.index <= r.leaf ORDER BY n.index` },
    { asks: 'From a token back to steps: which steps trained on a rollout?', sql: sql`
      SELECT rollout, row_id, n, step, policy_version_min AS sampled_by, staleness, round(advantage, 3) AS advantage
      FROM batch_rows WHERE run = 'maths' AND rollout = 'arith-2-3' AND NOT abandoned` },
    { asks: 'What was left out of training, and why?', sql: sql`
      SELECT reason, count() AS samples, max(staleness) AS worst_staleness, sum(length) AS tokens
      FROM dropped_samples WHERE feed = 'main' GROUP BY reason ORDER BY reason` },
    { asks: 'Do advantages of a group sum to zero?', sql: sql`
      SELECT "group", round(sum(advantage), 6) + 0 AS sum, round(max(advantage), 3) AS best, round(min(advantage), 3) AS worst
      FROM batch_rows WHERE feed = 'main' GROUP BY "group" ORDER BY "group"` },
    { asks: 'Is there anything that was rolled out and never trained on?', sql: sql`
      SELECT count() AS rollouts, countIf(rollout IN (SELECT rollout FROM batch_rows WHERE run = 'maths' AND NOT abandoned)) AS trained
      FROM rollouts WHERE run = 'maths'` },
    { asks: 'How long did a batch wait between its cut and its commit?', sql: sql`
      SELECT n, step, policy_version, dateDiff('second', cut, committed) AS seconds FROM batches WHERE feed = 'main' ORDER BY n` },
  ]],
  ['Evals', [
    { asks: 'How do two evals compare, task by task?', note: 'Only tasks that both have; docs/rest.md has intervals and tests for such a comparison.', sql: sql`
      SELECT round(avg(a.mean), 3) AS first, round(avg(b.mean), 3) AS second, round(avg(b.mean - a.mean), 3) AS difference, count() AS tasks
      FROM (SELECT task_key, avg(reward) AS mean FROM rollouts WHERE run = 'eval-1' GROUP BY task_key) AS a
      JOIN (SELECT task_key, avg(reward) AS mean FROM rollouts WHERE run = 'eval-2' GROUP BY task_key) AS b USING (task_key)` },
    { asks: 'Which tasks flip between two versions?', sql: sql`
      SELECT task_key, avgIf(reward, run = 'eval-1') AS before, avgIf(reward, run = 'eval-2') AS after, if(after > before, 'better', 'worse') AS became
      FROM rollouts WHERE run IN ('eval-1', 'eval-2') GROUP BY task_key HAVING before != after ORDER BY task_key` },
    { asks: 'What is pass@2, without bias?', note: 'One minus the chance that two of the n attempts, drawn without replacement, are all wrong.', sql: sql`
      SELECT run, round(avg(1 - if(wrong >= 2, wrong * (wrong - 1) / (n * (n - 1)), 0)), 3) AS pass_at_2
      FROM (SELECT run, task_key, count() AS n, countIf(reward < 1) AS wrong FROM rollouts WHERE run LIKE 'eval-%' GROUP BY run, task_key)
      WHERE n >= 2 GROUP BY run ORDER BY run` },
    { asks: 'Which tasks are solved always, sometimes, never?', sql: sql`
      SELECT run, countIf(mean = 1) AS always, countIf(mean > 0 AND mean < 1) AS sometimes, countIf(mean = 0) AS never
      FROM (SELECT run, task_key, avg(reward) AS mean FROM rollouts WHERE run LIKE 'eval-%' GROUP BY run, task_key) GROUP BY run ORDER BY run` },
  ]],
  ['Rollouts', [
    { asks: 'Are longer answers better?', sql: sql`
      SELECT env, round(corr(output_tokens, reward), 3) AS correlation, round(avgIf(output_tokens, reward >= 1), 1) AS solved_tokens, round(avgIf(output_tokens, reward < 1), 1) AS failed_tokens
      FROM rollouts WHERE run = 'maths' GROUP BY env ORDER BY env` },
    { asks: 'How often are rollouts cut by a length limit?', sql: sql`
      SELECT env, countIf(truncated) AS cut, count() AS rollouts, round(avgIf(reward, truncated), 3) AS reward_of_cut, round(avgIf(reward, NOT truncated), 3) AS reward_of_others
      FROM rollouts WHERE run = 'maths' GROUP BY env ORDER BY env` },
    { asks: 'What goes wrong?', sql: sql`
      SELECT e.type, x.env, count() AS errors, any(e.message) AS for_example
      FROM errors AS e JOIN rollouts AS x USING (run, rollout) WHERE e.run = 'maths' GROUP BY e.type, x.env` },
    { asks: 'Why did traces stop?', sql: sql`
      SELECT env, stop_condition, count() AS traces FROM traces WHERE run = 'maths' GROUP BY env, stop_condition ORDER BY env, traces DESC` },
    { asks: 'Which rollouts apologise?', sql: sql`
      SELECT x.step, count() AS nodes, uniqExact(n.rollout) AS rollouts
      FROM nodes AS n JOIN rollouts AS x USING (run, rollout) WHERE n.run = 'maths' AND n.sampled AND n.text ILIKE '%sorry%' GROUP BY x.step ORDER BY x.step` },
    { asks: 'How many tokens does a message of each role have?', sql: sql`
      SELECT role, count() AS nodes, round(avg(tokens), 1) AS mean, max(tokens) AS longest FROM nodes WHERE run = 'maths' GROUP BY role ORDER BY role` },
    { asks: 'How do numbers that are logged and not trained on go with the reward?', sql: sql`
      SELECT m.name, round(corr(m.value, x.reward), 3) AS correlation, count() AS values
      FROM metrics AS m JOIN rollouts AS x USING (run, rollout) WHERE m.run = 'maths' GROUP BY m.name` },
  ]],
  ['Calls, tools, cost', [
    { asks: 'Where do tokens drift between what was sampled and what was sent again?', note: 'extends = false: the prompt does not start with the ids of the answer it continues, so that training on it would be off-policy.', sql: sql`
      SELECT model, countIf(extends = false) AS drifted, countIf(extends IS NOT NULL) AS continued, arrayDistinct(arrayFlatten(groupArray(JSONExtract(ifNull(drift, '[]'), 'Array(String)')))) AS in_fields
      FROM calls WHERE run = 'maths' GROUP BY model ORDER BY model` },
    { asks: 'Which tools are slow, and which fail?', sql: sql`
      SELECT name, count() AS uses, round(avg(dateDiff('millisecond', started, ended)) / 1000, 2) AS seconds, max(dateDiff('second', started, ended)) AS slowest, countIf(error_type IS NOT NULL) AS failed
      FROM tools WHERE run = 'maths' GROUP BY name ORDER BY seconds DESC` },
    { asks: 'How fast does each model answer?', sql: sql`
      SELECT model, count() AS calls, round(avg(dateDiff('millisecond', started, first_token))) AS first_token_ms, round(sum(completion_tokens) / sum(dateDiff('millisecond', started, ended)) * 1000, 1) AS tokens_per_second
      FROM calls WHERE run = 'maths' GROUP BY model ORDER BY model` },
    { asks: 'What does a solved task cost?', sql: sql`
      SELECT env, round(sum(cost) * 1000, 3) AS cost_milli, countIf(reward >= 1) AS solved, round(sum(cost) * 1000 / countIf(reward >= 1), 3) AS cost_milli_per_solved
      FROM rollouts WHERE run = 'maths' GROUP BY env ORDER BY env` },
    { asks: 'How much of the prompts was cached?', sql: sql`
      SELECT model, sum(cached_tokens) AS cached, sum(prompt_tokens) AS prompt, round(cached / prompt, 3) AS share FROM calls WHERE run = 'maths' GROUP BY model ORDER BY model` },
  ]],
]; // prettier-ignore
