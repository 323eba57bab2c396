-- Lays down what is seen of the machines of some days of a load, so that split.sql, which asks
-- for it more than once, does not look up every host each time.
--
-- Parameters: base (the first load number of the split), load (the charges' load), days.
INSERT INTO idlewatt_store.seen (Pass, Resource, Hour, Uuid, Instance, Start, End, ShareNum, ShareDen, State, Cause, Node, Owner, OwnerConfidence,
    JobScheduler, JobCluster, JobId, JobTask, JobAttempt, Project, Team, Environment)
WITH bill AS (
    SELECT assumeNotNull(ResourceId) AS Resource, toDate(min(ChargePeriodStart)) AS a, toDate(max(ChargePeriodEnd)) AS z
    FROM idlewatt_store.gpu_charges WHERE x_Load = {load: UInt64} AND toDate(ChargePeriodStart) IN {days: Array(Date)} GROUP BY Resource)
SELECT {base: UInt64}, ResourceId, toStartOfHour(Start), Uuid, Instance, Start, End, ShareNum, ShareDen, State, Cause, Node, Owner, OwnerConfidence,
    JobScheduler, JobCluster, JobId, JobTask, JobAttempt, Project, Team, Environment
FROM idlewatt_store.placed_intervals
WHERE Day BETWEEN (SELECT min(a) FROM bill) AND (SELECT max(z) FROM bill) AND ResourceId IN (SELECT Resource FROM bill)
