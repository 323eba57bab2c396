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
-- When each run of an inventory has its names. From and To bound what is sure; Lo and Hi reach
-- to where nothing else can be known. An open run of a source that still tells is open; one of
-- a source that fell silent is sure until its last poll.
CREATE OR REPLACE VIEW idlewatt_store.inventory_spans AS
SELECT ResourceId, Hosts, Gpus, Evidence, Static, SeenFrom AS From, least(ifNull(StartedAfter, SeenFrom), SeenFrom) AS Lo,
    multiIf(isNotNull(SeenTo), assumeNotNull(SeenTo), isNotNull(Next), assumeNotNull(Next), empty(polls) OR Told + INTERVAL 3 HOUR >= Newest, {{forever}},
        greatest(Told, SeenFrom)) AS To,
    multiIf(isNotNull(SeenTo), greatest(To, ifNull(EndedBefore, To)), isNotNull(Next), To, {{forever}}) AS Hi
FROM
(
    SELECT i.*, CAST(i.Provider AS String) = 'config' AS Static, (SELECT max(At) FROM idlewatt_store.polls) AS Newest,
        leadInFrame(toNullable(i.SeenFrom)) OVER (PARTITION BY i.Source, i.Provider, i.ResourceId, i.Kind ORDER BY i.SeenFrom
            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS Next,
        arrayFilter(q -> q.1 IN ('', i.Account) AND q.2 IN ('', i.Region), p.polls) AS polls, arrayMax(q -> q.3, polls) AS Told
    FROM (SELECT * FROM idlewatt_store.instances FINAL WHERE notEmpty(Hosts) OR notEmpty(Gpus)) AS i
    LEFT ANY JOIN
    (
        SELECT Source, groupArray((toString(Account), toString(Region), Last)) AS polls
        FROM (SELECT Source, Account, Region, max(At) AS Last FROM idlewatt_store.polls GROUP BY Source, Account, Region) GROUP BY Source
    ) AS p ON p.Source = i.Source
)
;;
-- Every name that somebody gives a host, with the times for which that counts. Where an
-- inventory knows the machine's life it bounds what others say. A machine that is billed up
-- to the bill's edge is taken to go on, and to have been there before its first day.
CREATE OR REPLACE VIEW idlewatt_store.host_claims AS
SELECT lower(arrayJoin(arrayDistinct(arrayFilter(n -> n != '', Names)))) AS Name, Resource, How, if(Kind = 'bill', 2, 1) AS Rank,
    multiIf(Kind != 'bill', s0, Born < {{forever}}, if(e0 > Born, Born, s0), s0 <= First + INTERVAL 1 HOUR, toDateTime64(0, 3, 'UTC'), s0) AS From,
    multiIf(Kind = 'run', e1, Kind != 'bill', if(Born < {{forever}}, least(e1, Dead), e1),
        Born < {{forever}}, if(s1 < Dead, Dead, e1), e1 + INTERVAL 1 HOUR >= Last, {{forever}}, e1) AS To,
    multiIf(Kind = 'run', e0, Kind = 'bill' AND Born = {{forever}} AND s0 <= First + INTERVAL 2 DAY, toDateTime64(0, 3, 'UTC'), From) AS Lo,
    multiIf(Kind = 'run', s1, Kind = 'bill' AND Born = {{forever}} AND e1 + INTERVAL 2 DAY >= Last, {{forever}}, To) AS Hi
FROM
(
    SELECT *, minIf(s0, Kind = 'run') OVER life AS b, if(countIf(Kind = 'run') OVER life = 0, {{forever}}, b) AS Born, maxIf(s1, Kind = 'run') OVER life AS Dead,
        min(s0) OVER (PARTITION BY Kind, Account) AS First, max(e1) OVER (PARTITION BY Kind, Account) AS Last
    FROM
    (
        -- s0 and e1 are From and To; of a run e0 and s1 are Lo and Hi, of a bill the first period's end and the last one's start.
        SELECT if(Static, 'static', 'run') AS Kind, Hosts AS Names, ResourceId AS Resource, CAST(Evidence AS String) AS How, '' AS Account, From AS s0, Lo AS e0, Hi AS s1, To AS e1
        FROM idlewatt_store.inventory_spans
        UNION ALL
        SELECT 'node', arrayPushBack(Hosts, Name), ResourceId, 'scheduler', '', At, At, {{forever}},
            ifNull(leadInFrame(toNullable(At)) OVER (PARTITION BY Source, Cluster, Name ORDER BY At ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING), {{forever}})
        FROM idlewatt_store.nodes FINAL WHERE ResourceId != ''
        UNION ALL
        SELECT 'bill', [assumeNotNull(ResourceId), ifNull(ResourceName, ''), ifNull(x_Node, ''), splitByChar('/', assumeNotNull(ResourceId))[-1]], assumeNotNull(ResourceId), 'bill',
            CAST(BillingAccountId AS String) AS Payer, min(ChargePeriodStart), min(ChargePeriodEnd), max(ChargePeriodStart), max(ChargePeriodEnd)
        FROM idlewatt_store.gpu_charges GROUP BY ResourceId, ResourceName, x_Node, Payer
    )
    WINDOW life AS (PARTITION BY Resource)
)
;;
{{- define "runs"}}
-- Runs are (from, to, resource, evidence, candidates), in order of time and without overlap.
-- Where two resources hold a name at one time it leads to neither: both are candidates.
SELECT Name, arrayMap((s, lo, hi, before, after, i) -> (
        if(i = 1 OR lo >= before, least(lo, s.1), s.1), if(i = length(groups) OR hi <= after, greatest(hi, s.2), s.2),
        if(length(s.3) = 1, s.3[1], ''), if(length(s.3) = 1, arraySort(x -> x.6, arrayFilter(x -> x.5 = s.3[1] AND x.1 < s.2 AND x.2 > s.1, claims))[1].7, ''),
        if(length(s.3) = 1, [], s.3)),
    groups, los, his, arrayPushFront(arrayPopBack(his), toDateTime64(0, 3, 'UTC')), arrayPushBack(arrayPopFront(los), {{forever}}), arrayEnumerate(groups)) AS Runs
FROM
(
    SELECT Name, claims, arrayMap(g -> (g[1].1, g[-1].2, g[1].3), arraySplit((s, i) -> i = 1 OR s.3 != segments[i - 1].3, segments, arrayEnumerate(segments))) AS groups,
        arrayMap(s -> if(length(s.3) = 1, arrayMin(x -> x.3, arrayFilter(x -> x.5 = s.3[1] AND x.1 < s.2 AND x.2 > s.1, claims)), s.1), groups) AS los,
        arrayMap(s -> if(length(s.3) = 1, arrayMax(x -> x.4, arrayFilter(x -> x.5 = s.3[1] AND x.1 < s.2 AND x.2 > s.1, claims)), s.2), groups) AS his
    FROM
    (
        SELECT Name, arraySort(groupArray((From, To, Lo, Hi, Resource, Rank, How))) AS claims,
            arraySort(arrayDistinct(arrayConcat(arrayMap(x -> x.1, claims), arrayMap(x -> x.2, claims)))) AS cuts,
            arrayFilter(s -> notEmpty(s.3), arrayMap((a, b) -> (a, b, arraySort(arrayDistinct(arrayMap(x -> x.5, arrayFilter(x -> x.1 <= a AND x.2 >= b, claims))))),
                arrayPopBack(cuts), arrayPopFront(cuts))) AS segments
        FROM ({{.}}) WHERE From < To AND Name != '' GROUP BY Name
    )
)
{{- end}}
-- Which resource each host is, by name in lower case.
CREATE OR REPLACE VIEW idlewatt_store.host_map AS
{{template "runs" "SELECT * FROM idlewatt_store.host_claims"}}
;;
-- Which resource each GPU is in, by UUID, where an inventory tells: cards move between machines.
CREATE OR REPLACE VIEW idlewatt_store.gpu_map AS
{{template "runs" "SELECT arrayJoin(Gpus) AS Name, ResourceId AS Resource, toString(Evidence) AS How, 1 AS Rank, From, To, Lo, Hi FROM idlewatt_store.inventory_spans"}}
;;
CREATE OR REPLACE VIEW idlewatt_store.host_resources AS
SELECT Name AS Node, r.1 AS From, r.2 AS To, r.3 AS ResourceId, r.4 AS Evidence, r.5 AS Candidates
FROM idlewatt_store.host_map ARRAY JOIN Runs AS r
;;
-- Intervals with the resource of their machine: by the GPU's own id first, then by its host's
-- name, as either stood for most of the interval.
CREATE OR REPLACE VIEW idlewatt_store.placed_intervals AS
SELECT * EXCEPT (byGpu, byHost), if(byGpu.3 != '', byGpu.3, byHost.3) AS ResourceId, if(ResourceId = '', byHost.5, []) AS Candidates
FROM
(
    SELECT i.*, {{template "pick" "u"}} AS byGpu, {{template "pick" "h"}} AS byHost
    FROM idlewatt_store.live_intervals AS i
    LEFT ANY JOIN idlewatt_store.gpu_map AS u ON u.Name = i.Uuid
    LEFT ANY JOIN idlewatt_store.host_map AS h ON h.Name = lower(i.Node)
)
{{- define "pick"}}arraySort(r -> -dateDiff('millisecond', greatest(r.1, i.Start), least(r.2, i.End)), arrayFilter(r -> r.1 < i.End AND r.2 > i.Start, {{.}}.Runs))[1]{{end}}
