-- One row per attempt of a job, folded from all that is known of it. Per field the strongest
-- evidence counts (scheduler and cloud before declared), then the newest fact that states the
-- field. Nodes, GPUs and pods are those that any fact of the strongest evidence names.
CREATE OR REPLACE VIEW idlewatt_store.jobs AS
SELECT
    Scheduler, Cluster, JobId, ArrayTask, Attempt,
    argMaxIf(e.Name, Rank, e.Name != '') AS Name,
    argMaxIf(e.User, Rank, e.User != '') AS User,
    argMaxIf(e.Project, Rank, isNotNull(e.Project)) AS Project,
    argMaxIf(e.Team, Rank, isNotNull(e.Team)) AS Team,
    argMaxIf(e.Environment, Rank, isNotNull(e.Environment)) AS Environment,
    argMaxIf(e.Labels, Rank, notEmpty(e.Labels)) AS Labels,
    if(countIf(Firm AND notEmpty(e.Nodes)) > 0, arraySort(groupUniqArrayArrayIf(e.Nodes, Firm)), arraySort(groupUniqArrayArray(e.Nodes))) AS Nodes,
    if(countIf(Firm AND notEmpty(e.Gpus)) > 0, arraySort(groupUniqArrayArrayIf(e.Gpus, Firm)), arraySort(groupUniqArrayArray(e.Gpus))) AS Gpus,
    argMaxIf(e.GpuCount, Rank, e.GpuCount > 0) AS GpuCount,
    argMaxIf(e.Namespace, Rank, e.Namespace != '') AS Namespace,
    if(countIf(Firm AND notEmpty(e.Pods)) > 0, arraySort(groupUniqArrayArrayIf(e.Pods, Firm)), arraySort(groupUniqArrayArray(e.Pods))) AS Pods,
    argMaxIf(e.Start, Rank, isNotNull(e.Start)) AS Start,
    argMaxIf(e.End, Rank, isNotNull(e.End)) AS End,
    argMaxIf(e.Checkpoint, (Firm, e.Checkpoint), isNotNull(e.Checkpoint)) AS LastCheckpoint,
    argMaxIf(e.Outcome, Rank, e.Outcome != '') AS Outcome,
    argMaxIf(e.AcceptedUnits, Rank, isNotNull(e.AcceptedUnits)) AS AcceptedUnits,
    argMaxIf(e.UnitName, Rank, e.UnitName != '') AS UnitName,
    argMax(e.Evidence, Rank) AS Evidence,
    max(e.ReceivedAt) AS ReceivedAt
FROM
(
    SELECT *, Evidence != 'declared' AS Firm, (Firm, At, Event) AS Rank FROM idlewatt_store.job_events
) AS e
GROUP BY Scheduler, Cluster, JobId, ArrayTask, Attempt
