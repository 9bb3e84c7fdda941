-- An event's id is its project's own: another project may use it too. Rows from before say no project and stand for every one.

ALTER TABLE {{table event_ids}} ADD COLUMN IF NOT EXISTS project LowCardinality(String), MODIFY ORDER BY (id, _partition, project);

{{alter event_ids}} ADD COLUMN IF NOT EXISTS project LowCardinality(String);
