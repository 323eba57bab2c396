-- Every estimated hour and what became of it: shown as a charge (estimated), shown and met by
-- an invoice (settled), or gone for the bill (superseded).
CREATE OR REPLACE VIEW idlewatt.estimates DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT e.Source AS x_Source, e.ResourceId AS ResourceId, e.Name AS ResourceName, e.Kind AS ResourceType, e.Provider AS Provider, e.Account AS Account, e.Region AS RegionId,
    e.InstanceType AS x_InstanceType, e.GpuModel AS x_GpuModel, e.GpuCount AS x_GpuCount, e.PricingModel AS x_PricingModel, e.Family AS Family,
    e.RunStart AS RunStart, e.Start AS ChargePeriodStart, e.Stop AS ChargePeriodEnd, e.Hours AS Hours, e.GpuHours AS x_GpuHours,
    assumeNotNull(e.Rate) AS Rate, e.RateSource AS RateSource, e.Currency AS BillingCurrency, assumeNotNull(e.Cost) AS Cost,
    assumeNotNull(e.CostLow) AS CostLow, assumeNotNull(e.CostHigh) AS CostHigh,
    multiIf(c.Resource = '', 'superseded', c.Settled, 'settled', 'estimated') AS Status
FROM idlewatt_store.live_estimates AS e
LEFT ANY JOIN
(
    SELECT toString(x_Source) AS From, assumeNotNull(ResourceId) AS Resource, ifNull(ResourceType, '') AS Sort, ChargePeriodStart AS Began, isNotNull(InvoiceId) AS Settled
    FROM idlewatt_store.charges WHERE x_Dataset = 'estimate' AND isNotNull(ResourceId) AND x_Load IN (SELECT Load FROM idlewatt_store.live_loads)
) AS c ON c.From = e.Source AND c.Resource = e.ResourceId AND c.Sort = e.Kind AND c.Began = e.Start
WHERE isNotNull(e.Cost)
;;
-- Time of running resources that no bill covers and nothing prices: it is in no cost.
CREATE OR REPLACE VIEW idlewatt.unpriced_runs DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT e.Source AS x_Source, e.Provider AS Provider, e.Account AS Account, e.Region AS RegionId, e.ResourceId AS ResourceId, any(e.Name) AS ResourceName, e.Kind AS ResourceType,
    any(e.InstanceType) AS x_InstanceType, any(e.GpuModel) AS x_GpuModel, any(e.GpuCount) AS x_GpuCount, any(e.PricingModel) AS x_PricingModel,
    e.Reason AS Reason, uniqExact(e.RunStart) AS Runs, sum(e.Hours) AS Hours, sum(e.GpuHours) AS GpuHours, min(e.Start) AS FirstSeen, max(e.Stop) AS LastSeen
FROM idlewatt_store.live_estimates AS e
LEFT ANY JOIN idlewatt_store.complete AS c ON c.Provider = e.Provider AND c.Account = e.Account AND c.Family = e.Family
WHERE isNull(e.Cost) AND e.Stop > c.Through
GROUP BY x_Source, Provider, Account, RegionId, ResourceId, ResourceType, Reason
;;
-- What estimates missed by, up to where the bill is whole: each day of an account, type of
-- machine and pricing model. BilledCost is what the bill says the same usage cost (effective,
-- before credits); commitments show as estimates that nothing was billed for, and the reverse.
CREATE OR REPLACE VIEW idlewatt.estimate_errors DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT Provider, Account, Family, x_InstanceType, x_PricingModel, BillingCurrency, Day,
    sum(Estimated) AS EstimatedCost, sum(Billed) AS BilledCost, EstimatedCost - BilledCost AS Difference, sum(EstimatedTime) AS EstimatedHours, sum(BilledTime) AS BilledHours
FROM
(
    SELECT toString(e.Provider) AS Provider, toString(e.Account) AS Account, toString(e.Family) AS Family, toString(e.InstanceType) AS x_InstanceType,
        toString(e.PricingModel) AS x_PricingModel, toString(e.Currency) AS BillingCurrency, e.Day AS Day, assumeNotNull(e.Cost) AS Estimated,
        toDecimal128(0, 18) AS Billed, e.Hours AS EstimatedTime, toDecimal128(0, 18) AS BilledTime
    FROM idlewatt_store.live_estimates AS e
    INNER JOIN idlewatt_store.complete AS c ON c.Provider = e.Provider AND c.Account = e.Account AND c.Family = e.Family
    WHERE isNotNull(e.Cost) AND e.Stop <= c.Through
    UNION ALL
    SELECT b.Provider, k.Account, toString(b.Family), if(b.Machine != '', b.Machine, s.Machine), b.Pricing, b.Money, toDate(b.Start), toDecimal128(0, 18), b.Paid,
        toDecimal128(0, 18), ifNull(b.MachineHours, toDecimal128(0, 18))
    FROM idlewatt_store.billed_usage AS b
    INNER JOIN
    (
        SELECT e.Provider AS Provider, toString(e.Account) AS Account, toString(e.Family) AS Family, min(e.Start) AS Since, any(c.Through) AS Until
        FROM idlewatt_store.live_estimates AS e
        INNER JOIN idlewatt_store.complete AS c ON c.Provider = e.Provider AND c.Account = e.Account AND c.Family = e.Family
        WHERE isNotNull(e.Cost) GROUP BY Provider, Account, Family
    ) AS k ON k.Provider = b.Provider AND k.Family = b.Family
    LEFT ANY JOIN (SELECT ResourceId AS Seen, any(toString(l.InstanceType)) AS Machine FROM idlewatt_store.live_estimates AS l GROUP BY Seen) AS s ON s.Seen = b.Resource
    WHERE (k.Account = '' OR has(b.Accounts, k.Account)) AND b.Stop > k.Since AND b.Stop <= k.Until AND dateDiff('second', b.Start, b.Stop) <= 90000
        AND (b.Machine != '' OR s.Seen != '')
)
GROUP BY Provider, Account, Family, x_InstanceType, x_PricingModel, BillingCurrency, Day
;;
-- What runs as far as the last poll knows, and what it has cost since it began.
CREATE OR REPLACE VIEW idlewatt.running DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT r.Origin AS x_Source, r.Provider AS Provider, r.Account AS Account, r.Region AS RegionId, r.ResourceId AS ResourceId, r.Name AS ResourceName, r.Kind AS ResourceType,
    r.InstanceType AS x_InstanceType, if(r.GpuModel != '', r.GpuModel, e.Model) AS x_GpuModel, ifNull(r.GpuCount, e.Gpus) AS x_GpuCount, r.PricingModel AS x_PricingModel,
    r.SeenFrom AS RunStart, r.End AS SeenUntil, coalesce(r.Rate, e.Hourly) AS CostPerHour, if(isNotNull(r.Rate), 'provider', e.How) AS RateSource,
    if(isNotNull(r.Rate), toString(r.Currency), e.Money) AS BillingCurrency, e.Spent AS CostSoFar, r.Hosts AS Hosts
FROM idlewatt_store.runs AS r
LEFT ANY JOIN
(
    SELECT l.Source AS Source, l.ResourceId AS ResourceId, l.Kind AS Kind, l.RunStart AS RunStart, any(l.GpuModel) AS Model, any(l.GpuCount) AS Gpus,
        argMaxOrNull(l.Rate, l.Start) AS Hourly, argMax(toString(l.RateSource), l.Start) AS How, argMax(toString(l.Currency), l.Start) AS Money,
        if(countIf(isNull(l.Cost)) > 0 OR uniqExact(l.Currency) > 1, NULL, sum(l.Cost)) AS Spent
    FROM idlewatt_store.live_estimates AS l GROUP BY Source, ResourceId, Kind, RunStart
) AS e ON e.Source = r.Origin AND e.ResourceId = r.ResourceId AND e.Kind = r.Kind AND e.RunStart = r.SeenFrom
WHERE r.Open
;;
-- The newest balance of each prepaid account, and when it is used up at what is spent now: as
-- the provider tells it, else what runs costs at the provider's rates. Never a cost.
CREATE OR REPLACE VIEW idlewatt.wallets DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT w.Source AS x_Source, w.Provider AS Provider, w.Account AS Account, w.At AS At, w.Balance AS Balance, w.Currency AS BillingCurrency,
    coalesce(w.Told, nullIf(r.Running, 0)) AS SpendPerHour, multiIf(isNotNull(w.Told), 'provider', r.Running > 0, 'running', '') AS SpendSource, w.Limit AS SpendLimit,
    -- A balance that outlasts ten years has no end worth a date.
    if(ifNull(SpendPerHour > 0 AND w.Balance > 0 AND toDecimal256(w.Balance, 18) < multiplyDecimal(toDecimal256(SpendPerHour, 18), toDecimal256(87600, 0), 18), 0),
        w.At + toIntervalSecond(toInt64(divideDecimal(multiplyDecimal(toDecimal256(w.Balance, 18), toDecimal256(3600, 0), 18), toDecimal256(assumeNotNull(SpendPerHour), 18), 0))),
        if(w.Balance <= 0, toNullable(w.At), NULL)) AS ExpectedEnd
FROM
(
    SELECT Source, Account, argMax(toString(o.Provider), o.At) AS Provider, argMax(o.Balance, o.At) AS Balance, argMax(toString(o.Currency), o.At) AS Currency,
        argMax(tuple(o.SpendPerHour), o.At).1 AS Told, argMax(tuple(o.SpendLimit), o.At).1 AS Limit, max(o.At) AS At
    FROM idlewatt_store.wallets AS o GROUP BY Source, Account
) AS w
LEFT ANY JOIN
(
    SELECT Origin, toString(Account) AS Account, toString(Currency) AS Currency, sum(Rate) AS Running FROM idlewatt_store.runs
    WHERE Open AND isNotNull(Rate) GROUP BY Origin, Account, Currency
) AS r ON r.Origin = w.Source AND r.Account = w.Account AND r.Currency = w.Currency
