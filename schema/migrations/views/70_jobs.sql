CREATE OR REPLACE VIEW idlewatt.job_costs DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT a.Scheduler AS Scheduler, a.Cluster AS Cluster, a.JobId AS JobId, a.JobTask AS JobTask, a.Attempt AS Attempt, any(j.User) AS User,
    coalesce(any(j.Project), any(a.x_Project)) AS x_Project, coalesce(any(j.Team), any(a.x_Team)) AS x_Team,
    any(j.Outcome) AS Outcome, any(j.Start) AS Start, any(j.End) AS End, a.BillingCurrency AS BillingCurrency,
    sum(a.x_GpuHours) AS GpuHours, sumIf(a.x_GpuHours, a.x_AllocationKind = 'job_used') AS BusyGpuHours,
    sum(a.EffectiveCost) AS EffectiveCost, sumIf(ifNull(a.EffectiveCost, 0), a.x_AllocationKind = 'job_idle') AS IdleCost,
    -- What was spent after the last checkpoint of an attempt that did not complete.
    sumIf(ifNull(a.EffectiveCost, 0), j.Outcome IN ('FAILED', 'PREEMPTED', 'NODE_FAIL', 'TIMEOUT', 'OUT_OF_MEMORY', 'CANCELLED')
        AND (isNull(j.LastCheckpoint) OR a.ChargePeriodStart >= j.LastCheckpoint)) AS RetryCost,
    if(GpuHours > 0, toDecimal128(divideDecimal(toDecimal256(EffectiveCost, 18), toDecimal256(GpuHours, 18), 18), 18), NULL) AS CostPerGpuHour,
    sumIf(ifNull(a.EffectiveCost, 0), a.x_ChargeStatus = 'estimated') AS EstimatedCost,
    multiIf(countIf(a.OwnerConfidence = 'low') > 0, 'low', countIf(a.x_AllocationQuality = 'scheduled') > 0, 'scheduled', 'high') AS Confidence,
    any(j.Name) AS Name, any(j.AcceptedUnits) AS AcceptedUnits, any(j.UnitName) AS UnitName
FROM idlewatt.allocations AS a
LEFT ANY JOIN idlewatt_store.jobs AS j ON j.Scheduler = a.Scheduler AND j.Cluster = a.Cluster AND j.JobId = a.JobId
    AND j.ArrayTask = a.JobTask AND j.Attempt = a.Attempt
WHERE a.JobId != ''
GROUP BY a.Scheduler, a.Cluster, a.JobId, a.JobTask, a.Attempt, a.BillingCurrency
