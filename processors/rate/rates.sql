    -- Runs that touch the time asked for, and the hours in which they ran.
    run AS (
        SELECT *, toDateTime64(greatest(toStartOfHour(SeenFrom), {from: DateTime64(3, 'UTC')}), 3, 'UTC') AS first_hour,
            toDateTime64(least(End, {to: DateTime64(3, 'UTC')}), 3, 'UTC') AS till,
            arrayMap(i -> first_hour + toIntervalHour(i),
                range(toUInt32(if(till > first_hour, dateDiff('hour', first_hour, till - INTERVAL 1 MILLISECOND) + 1, 0)))) AS hours
        FROM idlewatt_store.runs
        WHERE ({origin: String} = '' OR Origin = {origin: String}) AND End >= {from: DateTime64(3, 'UTC')} AND SeenFrom < {to: DateTime64(3, 'UTC')}),
    -- What needs a rate: kinds of machines by the hour. Commitments are paid for elsewhere.
    need AS (
        SELECT DISTINCT Origin, Provider, Account, InstanceType, Kind, PricingModel, Region, Zone, System, arrayJoin(hours) AS Hour
        FROM run WHERE isNull(Rate) AND PricingModel NOT IN ({{committed}})),
    -- What the account really paid for such machines, by day of its live bills.
    paid AS (
        SELECT Provider, arrayJoin(Accounts) AS Account, Machine, Pricing, Place, Money, toDate(Start) AS Day,
            sum(toDecimal256(Paid, 18)) AS Sum, sum(toDecimal256(assumeNotNull(MachineHours), 18)) AS Time
        FROM idlewatt_store.billed_usage
        WHERE Effective AND MachineHours > 0 AND Pricing IN ('on_demand', 'spot') AND Machine IN (SELECT InstanceType FROM need WHERE InstanceType != '')
            AND PeriodStart >= {from: DateTime64(3, 'UTC')} - INTERVAL 70 DAY AND Start >= {from: DateTime64(3, 'UTC')} - INTERVAL 36 DAY
            AND Start < {to: DateTime64(3, 'UTC')} AND Stop <= toStartOfDay(Start) + INTERVAL 1 DAY
        GROUP BY Provider, Account, Machine, Pricing, Place, Money, Day),
    -- The negotiated rate of a day comes from the {{window}} days before it: no day is estimated
    -- by its own bill, so that estimate_errors says how good estimates are.
    negotiated AS (
        SELECT Provider AS gProvider, Account AS gAccount, InstanceType AS gType, PricingModel AS gModel, Region AS gRegion, Day AS gDay, 'machine' AS gKind,
            argMax((r, Money), (Time, Money)) AS Negotiated
        FROM
        (
            SELECT k.Provider AS Provider, k.Account AS Account, k.InstanceType AS InstanceType, k.PricingModel AS PricingModel,
                k.Region AS Region, k.Day AS Day, b.Money AS Money, sum(b.Time) AS Time,
                toDecimal128(divideDecimal(sum(b.Sum), sum(b.Time), 18), 18) AS r
            FROM (SELECT DISTINCT Provider, Account, InstanceType, PricingModel, Region, toDate(Hour) AS Day FROM need
                WHERE Kind = 'machine' AND InstanceType != '' AND PricingModel IN ('on_demand', 'spot')) AS k
            INNER JOIN paid AS b ON b.Provider = k.Provider AND b.Account = k.Account AND b.Machine = k.InstanceType
                AND b.Pricing = k.PricingModel AND b.Place = k.Region
            WHERE b.Day < k.Day AND b.Day >= k.Day - {{window}}
            GROUP BY Provider, Account, InstanceType, PricingModel, Region, Day, Money
        )
        WHERE r > 0 AND r < {{highest}}
        GROUP BY gProvider, gAccount, gType, gModel, gRegion, gDay),
    -- The newest price that is not after the hour: of the zone, else the region, else anywhere.
    -- If none is that old, the first one that came within the hour.
    listed AS (
        SELECT n.Provider AS lProvider, n.InstanceType AS lType, n.Kind AS lKind, n.PricingModel AS lModel, n.Region AS lRegion,
            n.Zone AS lZone, n.System AS lSystem, n.Hour AS lHour,
            argMax((p.Rate, toString(p.Per), toString(p.Currency)), (multiIf(p.Zone != '', 2, p.Region != '', 1, 0), p.System != '', p.ValidFrom <= n.Hour,
                if(p.ValidFrom <= n.Hour, toInt64(toUnixTimestamp64Milli(p.ValidFrom)), -toInt64(toUnixTimestamp64Milli(p.ValidFrom))),
                p.Per = 'machine', p.ReceivedAt, p.Source)) AS Listed
        FROM (SELECT DISTINCT Provider, InstanceType, Kind, PricingModel, Region, Zone, System, Hour FROM need) AS n
        INNER JOIN (SELECT * FROM idlewatt_store.prices FINAL WHERE Per IN ('machine', 'gpu') AND Rate > 0 AND Rate < {{highest}}) AS p
            ON p.Provider = n.Provider AND p.InstanceType = n.InstanceType AND p.Kind = n.Kind AND p.PricingModel = n.PricingModel
        WHERE p.Region IN ('', n.Region) AND p.Zone IN ('', n.Zone) AND p.System IN ('', n.System)
            AND p.ValidFrom < n.Hour + INTERVAL 1 HOUR AND ifNull(p.ValidTo > n.Hour, 1)
        GROUP BY lProvider, lType, lKind, lModel, lRegion, lZone, lSystem, lHour),
    rated AS (
        SELECT n.*, g.Negotiated AS Negotiated, l.Listed AS Listed
        FROM need AS n
        LEFT ANY JOIN negotiated AS g ON g.gProvider = n.Provider AND g.gAccount = n.Account AND g.gType = n.InstanceType
            AND g.gModel = n.PricingModel AND g.gRegion = n.Region AND g.gDay = toDate(n.Hour) AND g.gKind = n.Kind
        LEFT ANY JOIN listed AS l ON l.lProvider = n.Provider AND l.lType = n.InstanceType AND l.lKind = n.Kind
            AND l.lModel = n.PricingModel AND l.lRegion = n.Region AND l.lZone = n.Zone AND l.lSystem = n.System AND l.lHour = n.Hour)
