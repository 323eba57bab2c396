-- Writes the estimates of some days of one source. An amount of an hour is what the run has
-- cost by the end of the hour less what it had by its begin, each rounded once: so the hours of
-- a run add up to its time at its rate, and a run that goes on changes no earlier hour.
--
-- Parameters: base (the first load number to write), origin, days, from, to.
INSERT INTO idlewatt_store.estimates (Load, Source, Day, Hour, Start, Stop, RunStart, ResourceId, Kind, Family, Name, Node, Provider,
    Account, Region, Zone, InstanceType, GpuModel, GpuCount, PricingModel, Tags, Hours, GpuHours, Rate, RateSource, Reason, Currency,
    Cost, CostLow, CostHigh)
WITH
{{template "rates"}},
    piece AS (
        SELECT r.* EXCEPT (hours), h AS Hour, greatest(SeenFrom, Hour) AS Start, least(End, Hour + INTERVAL 1 HOUR) AS Stop,
            SeenFrom >= Hour AS begins, End <= Hour + INTERVAL 1 HOUR AS ends,
            dateDiff('millisecond', SeenFrom, Start) AS a, if(ends, Billed, dateDiff('millisecond', SeenFrom, Stop)) AS z,
            if(begins, 0, Before + a) AS wide_a, if(ends, Widest, Before + dateDiff('millisecond', SeenFrom, Stop)) AS wide_z
        FROM run AS r ARRAY JOIN hours AS h
        WHERE toDate(h) IN {days: Array(Date)}),
    priced AS (
        SELECT p.*, if(p.Kind IN ('machine', 'serverless'), ifNull(p.GpuCount, if(g.gCount > 0, toNullable(g.gCount), NULL)), NULL) AS Cards,
            if(p.GpuModel != '' OR isNull(Cards), p.GpuModel, g.gModel) AS Model,
            multiIf(isNotNull(p.Rate), if(p.Rate < {{highest}}, p.Rate, NULL), t.Negotiated.1 > 0, toNullable(t.Negotiated.1), t.Listed.2 = 'machine', toNullable(t.Listed.1),
                t.Listed.2 = 'gpu' AND p.GpuCount > 0 AND p.GpuCount < 100000,
                toDecimal128(multiplyDecimal(toDecimal256(t.Listed.1, 18), toDecimal256(assumeNotNull(p.GpuCount), 18), 18), 18), NULL) AS hourly,
            multiIf(isNull(hourly), '', isNotNull(p.Rate), 'provider', t.Negotiated.1 > 0, 'negotiated', 'catalogue') AS How,
            multiIf(isNotNull(hourly), '', isNotNull(p.Rate), 'rate_too_high', p.PricingModel IN ({{committed}}), 'committed', t.Listed.2 = 'gpu', 'no_gpu_count',
                p.PricingModel = '', 'no_pricing_model', 'no_price') AS Why,
            multiIf(How = 'provider', toString(p.Currency), How = 'negotiated', t.Negotiated.2, t.Listed.3) AS Money
        FROM piece AS p
        LEFT ANY JOIN
        (
            SELECT Provider AS tProvider, Account AS tAccount, InstanceType AS tType, Kind AS tKind, PricingModel AS tModel, Region AS tRegion,
                Zone AS tZone, System AS tSystem, Hour AS tHour, Negotiated, Listed FROM rated
        ) AS t ON t.tProvider = p.Provider AND t.tAccount = p.Account AND t.tType = p.InstanceType AND t.tKind = p.Kind
            AND t.tModel = p.PricingModel AND t.tRegion = p.Region AND t.tZone = p.Zone AND t.tSystem = p.System AND t.tHour = p.Hour
        LEFT ANY JOIN (SELECT InstanceType AS gType, GpuModel AS gModel, GpuCount AS gCount FROM idlewatt_store.gpu_catalog FINAL WHERE GpuCount > 0) AS g
            ON g.gType = p.InstanceType)
SELECT {base: UInt64} + indexOf({days: Array(Date)}, toDate(Hour)) - 1, {origin: String}, toDate(Hour), Hour, Start, Stop, SeenFrom, ResourceId, Kind, Family, Name,
    Hosts[1], Provider, Account, Region, Zone, InstanceType, Model, Cards, PricingModel, mapSort(Tags),
    assumeNotNull({{share "toDecimal128(1, 18)" "a" "z"}}), {{share "Cards" "a" "z"}}, hourly, How, Why, Money,
    {{share "hourly" "a" "z"}} AS sure, sure, {{share "hourly" "wide_a" "wide_z"}}
FROM priced
