CREATE OR REPLACE VIEW idlewatt_store.live_intervals AS
SELECT * FROM idlewatt_store.gpu_intervals
WHERE Load IN (SELECT max(Load) FROM idlewatt_store.interval_commits GROUP BY Uuid, Instance, Day)
;;
CREATE OR REPLACE VIEW idlewatt.gpu_intervals DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT Node, Uuid AS GpuUuid, Instance AS GpuInstance, GpuModel AS x_GpuModel, Start AS IntervalStart, End AS IntervalEnd,
    ShareNum, ShareDen, State, Cause, Resident AS x_Resident, OwnerKind, Owner, OwnerConfidence,
    JobScheduler AS Scheduler, JobCluster AS Cluster, JobId, JobTask, JobAttempt AS Attempt,
    Project AS x_Project, Team AS x_Team, Environment AS x_Environment, LastJobId, Coverage, MeanPowerW, EngineMax, Findings
FROM idlewatt_store.live_intervals
;;
-- Every name a billed machine or an inventory record gives a host. A name that leads to more
-- than one resource is ambiguous and matches none.
CREATE OR REPLACE VIEW idlewatt_store.host_resources AS
SELECT Node, any(Resource) AS ResourceId, argMin(How, Rank) AS Evidence
FROM
(
    SELECT lower(arrayJoin(Hosts)) AS Node, ResourceId AS Resource, Evidence AS How, 1 AS Rank FROM idlewatt_store.instances FINAL
    UNION ALL
    SELECT lower(arrayJoin(arrayDistinct(arrayPushBack(Hosts, Name)))), ResourceId, 'scheduler', 1 FROM idlewatt_store.nodes FINAL WHERE ResourceId != ''
    UNION ALL
    SELECT lower(arrayJoin(arrayDistinct(arrayFilter(n -> n != '', [assumeNotNull(ResourceId), ifNull(ResourceName, ''),
            ifNull(x_Node, ''), splitByChar('/', assumeNotNull(ResourceId))[-1]])))) AS Node,
        assumeNotNull(ResourceId) AS Resource, 'bill' AS How, 2 AS Rank
    FROM (SELECT DISTINCT ResourceId, ResourceName, x_Node FROM idlewatt_store.gpu_charges)
)
GROUP BY Node HAVING uniqExact(Resource) = 1
;;
-- The resource of every GPU with telemetry, by the GPU's own id first, then by its host.
CREATE OR REPLACE VIEW idlewatt_store.gpu_resources AS
SELECT n.Uuid AS Uuid, n.Node AS Node, if(u.ResourceId != '', u.ResourceId, h.ResourceId) AS ResourceId
FROM (SELECT DISTINCT Uuid, Node FROM idlewatt_store.live_intervals) AS n
LEFT ANY JOIN (SELECT Uuid, any(Resource) AS ResourceId
    FROM (SELECT arrayJoin(Gpus) AS Uuid, ResourceId AS Resource FROM idlewatt_store.instances FINAL)
    GROUP BY Uuid HAVING uniqExact(Resource) = 1) AS u ON u.Uuid = n.Uuid
LEFT ANY JOIN idlewatt_store.host_resources AS h ON h.Node = lower(n.Node)
