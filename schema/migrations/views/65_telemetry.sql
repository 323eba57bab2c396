-- What came from each target that was scraped in the month before the newest scrape of all;
-- counts are of the last day before it. Rejected is readings that were refused, by reason.
CREATE OR REPLACE VIEW idlewatt.telemetry DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT s.Target AS Target, argMax(s.Node, s.At) AS Node, max(s.At) AS LastScrape, maxOrNullIf(s.At, s.Ok) AS LastOk,
    argMaxIf(s.Error, s.At, NOT s.Ok) AS LastError, argMaxIf(s.Gpus, s.At, s.Ok) AS GpuCount,
    countIf(Lately) AS Scrapes, countIf(Lately AND NOT s.Ok) AS FailedScrapes, countIf(Lately AND s.Ok AND NOT s.Complete) AS IncompleteScrapes,
    sumMapIf(CAST(s.Rejected AS Map(String, UInt64)), Lately) AS Rejected, argMax(s.SkewMs, s.At) / 1000 AS SkewSeconds
FROM
(
    SELECT *, At > (SELECT max(At) FROM idlewatt_store.scrapes) - INTERVAL 1 DAY AS Lately
    FROM idlewatt_store.scrapes FINAL WHERE At > (SELECT max(At) FROM idlewatt_store.scrapes) - INTERVAL 30 DAY
) AS s
GROUP BY s.Target
;;
-- How well each GPU was used in a UTC day, by holder. Means are of samples with the reading in
-- time with a verdict; what nothing read stays NULL. Power is a card's: a MIG instance has none.
CREATE OR REPLACE VIEW idlewatt.gpu_efficiency DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT Day, Node, Uuid AS GpuUuid, Instance AS GpuInstance, any(Model) AS x_GpuModel, Owner, Scheduler, Cluster, JobId, JobTask, Attempt,
    any(Project) AS x_Project, any(Team) AS x_Team, sum(Hours) AS GpuHours, sum(Busy) AS BusyGpuHours,
    avg(Engine) AS MeanEngine, avg(Sm) AS MeanSm, avg(Tensor) AS MeanTensor, avg(Dram) AS MeanDram, avg(PowerW) AS MeanPowerW,
    MeanPowerW * toFloat64(sum(Judged)) / 1000 AS EnergyKWh, avg(UsedMiB) AS MeanMemoryMiB, max(UsedMiB) AS PeakMemoryMiB, max(TotalMiB) AS MemoryMiB,
    avg(Ratio) AS MeanMemoryRatio, max(Ratio) AS PeakMemoryRatio, if(uniqExactIf(Currency, Currency != '') = 1, sum(Cost), NULL) AS EffectiveCost,
    if(uniqExactIf(Currency, Currency != '') = 1, max(Currency), '') AS BillingCurrency,
    -- Evidence that a smaller device would have done: little memory and few multiprocessors over a working day.
    if(JobId != '' AND Instance = '' AND ifNull(PeakMemoryRatio < 0.25 AND MeanSm < 0.3, 0) AND BusyGpuHours >= 8, 'smaller GPU or MIG slice', '') AS Hint
FROM
(
    SELECT Day, toString(Node) AS Node, Uuid, toString(Instance) AS Instance, toString(GpuModel) AS Model, Owner, toString(JobScheduler) AS Scheduler, toString(JobCluster) AS Cluster,
        JobId, JobTask, JobAttempt AS Attempt, toNullable(toString(Project)) AS Project, toNullable(toString(Team)) AS Team,
        toDecimal128(divideDecimal(toDecimal256(dateDiff('millisecond', Start, End) * toInt64(ShareNum), 0), toDecimal256(3600000 * toInt64(ShareDen), 0), 18), 18) AS Hours,
        if(State IN ('busy', 'busy_unowned'), Hours, toDecimal128(0, 18)) AS Busy, if(State != 'unknown', Hours, toDecimal128(0, 18)) AS Judged,
        CAST(NULL AS Nullable(Float64)) AS Engine, CAST(NULL AS Nullable(Float64)) AS Sm, CAST(NULL AS Nullable(Float64)) AS Tensor, CAST(NULL AS Nullable(Float64)) AS Dram,
        CAST(NULL AS Nullable(Float64)) AS PowerW, CAST(NULL AS Nullable(Float64)) AS UsedMiB, CAST(NULL AS Nullable(Float64)) AS TotalMiB, CAST(NULL AS Nullable(Float64)) AS Ratio,
        CAST(NULL AS Nullable(Decimal(38, 18))) AS Cost, '' AS Currency
    FROM idlewatt_store.live_intervals
    UNION ALL
    SELECT i.Day, toString(i.Node), i.Uuid, toString(i.Instance), '', i.Owner, toString(i.JobScheduler), toString(i.JobCluster), i.JobId, i.JobTask, i.JobAttempt, NULL, NULL,
        toDecimal128(0, 18), toDecimal128(0, 18), toDecimal128(0, 18), ifNull(s.Engine, s.Utilization), s.Sm, s.Tensor, s.Dram, if(s.Instance = '', s.PowerW, NULL),
        s.FbUsedMiB, s.FbTotalMiB, if(s.FbTotalMiB > 0, s.FbUsedMiB / s.FbTotalMiB, s.FbUsedRatio), NULL, ''
    FROM (SELECT *, toStartOfHour(At) AS Hour FROM idlewatt_store.gpu_samples FINAL) AS s
    INNER JOIN (SELECT *, toStartOfHour(Start) AS Hour FROM idlewatt_store.live_intervals WHERE State != 'unknown') AS i
        ON i.Uuid = s.Uuid AND i.Instance = s.Instance AND i.Hour = s.Hour
    WHERE s.At >= i.Start AND s.At < i.End
    UNION ALL
    SELECT toDate(ChargePeriodStart), toString(Node), GpuUuid, toString(GpuInstance), '', Owner, toString(Scheduler), toString(Cluster), JobId, JobTask, Attempt, NULL, NULL,
        toDecimal128(0, 18), toDecimal128(0, 18), toDecimal128(0, 18), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, EffectiveCost, toString(BillingCurrency)
    FROM idlewatt.allocations WHERE GpuUuid != ''
)
GROUP BY Day, Node, Uuid, Instance, Owner, Scheduler, Cluster, JobId, JobTask, Attempt
