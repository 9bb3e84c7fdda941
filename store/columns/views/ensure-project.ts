/** The database of views that belongs to one project: the only names a query of that project can reach. */
import { createHash } from 'node:crypto';
import type { ColumnStore } from '../column-store.ts';
import { projectDatabase } from '../project-database.ts';
import { stringLiteral } from '../sql-literal.ts';
import { CATALOGUE } from './catalogue.ts';
import { viewSelect } from './view.ts';

export type ProjectOptions = {
  /** The database that holds the tables. */
  readonly database: string;
  readonly cluster: { readonly name: string } | null;
  /** How the tables are compressed, where they are made. */
  readonly compression?: 'zstd' | 'by part size';
  /** Names the database of views; a rebuild keeps its views apart from the live ones. */
  readonly databaseOf?: (project: string) => string;
};

/**
 * Creates or renews the views of a project and answers their database. Idempotent; cheap when nothing changed. The project is a literal inside each
 * view, and views run with the rights of their definer, so a reader needs rights on this database only.
 */
export async function ensureProject(store: ColumnStore, project: string, options: ProjectOptions): Promise<string> {
  const database = (options.databaseOf ?? projectDatabase)(project);
  const statements = projectStatements(project, options);
  const version = createHash('sha256').update(statements.join('\n')).digest('hex').slice(0, 16);
  const known = await store.rows<{ views: string }>(`SELECT views FROM ${tables(options)}projects FINAL WHERE project = {project:String}`, {
    params: { project },
  });
  if (known[0]?.views === version) return database;
  for (const statement of statements) await store.command(statement);
  await store.command(
    `INSERT INTO ${tables(options)}projects (project, database, views) SETTINGS async_insert = 0, deduplicate_insert = 'disable' SELECT ${stringLiteral(project)}, ${stringLiteral(database)}, '${version}'`,
  );
  return database;
}

/** Renews the views of all known projects, after the program changed. */
export async function ensureKnownProjects(store: ColumnStore, options: ProjectOptions): Promise<readonly string[]> {
  const known = await store.rows<{ project: string }>(`SELECT project FROM ${tables(options)}projects FINAL ORDER BY project`);
  for (const { project } of known) await ensureProject(store, project, options);
  return known.map(({ project }) => project);
}

/** The statements that make the views of a project. */
export function projectStatements(project: string, options: ProjectOptions): string[] {
  const database = (options.databaseOf ?? projectDatabase)(project);
  const where = options.cluster === null ? '' : ` ON CLUSTER \`${options.cluster.name}\``;
  const source = { db: tables(options), project: stringLiteral(project) };
  const views = CATALOGUE.map(
    (view) =>
      `CREATE OR REPLACE VIEW \`${database}\`.\`${view.name}\`${where} DEFINER = CURRENT_USER SQL SECURITY DEFINER AS ${viewSelect(view, source)}`,
  );
  return [`CREATE DATABASE IF NOT EXISTS \`${database}\`${where}`, ...views];
}

function tables({ database }: ProjectOptions): string {
  return `\`${database}\`.`;
}
