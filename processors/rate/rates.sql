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
        WHERE Effective AND MachineHours > 0 AND Pricing IN ('on_demand', 'spot') AND Machine IN (SELECT InstanceType FROM idlewatt_store.instances WHERE InstanceType != '')
            AND PeriodStart >= {from: DateTime64(3, 'UTC')} - INTERVAL 70 DAY AND Start >= {from: DateTime64(3, 'UTC')} - INTERVAL 36 DAY
            AND Start < {to: DateTime64(3, 'UTC')} AND Stop <= toStartOfDay(Start) + INTERVAL 1 DAY
        GROUP BY Provider, Account, Machine, Pricing, Place, Money, Day),
    -- The negotiated rate of a day comes from the {{window}} days before it: no day is estimated
    -- by its own bill, so that estimate_errors says how good estimates are.
    negotiated AS (
        SELECT Provider AS gProvider, Account AS gAccount, Machine AS gType, Pricing AS gModel, Place AS gRegion, Next AS gDay, 'machine' AS gKind,
            argMax((r, Money), (Hours, Money)) AS Negotiated
        FROM
        (
            SELECT Provider, Account, Machine, Pricing, Place, Money, Day + i AS Next, sum(Time) AS Hours, toDecimal128(divideDecimal(sum(Sum), sum(Time), 18), 18) AS r
            FROM paid ARRAY JOIN range(1, {{window}} + 1) AS i
            GROUP BY Provider, Account, Machine, Pricing, Place, Money, Next
        )
        WHERE r > 0 AND r < {{highest}}
        GROUP BY gProvider, gAccount, gType, gModel, gRegion, gDay),
    offered AS (
        SELECT Provider AS lProvider, InstanceType AS lType, Kind AS lKind, PricingModel AS lModel,
            groupArray((toString(Region), toString(Zone), toString(System), toString(Per), Rate, toString(Currency), ValidFrom, ifNull(ValidTo, toDateTime64('2200-01-01 00:00:00', 3, 'UTC')),
                ReceivedAt, toString(Source))) AS all
        FROM idlewatt_store.prices FINAL WHERE Per IN ('machine', 'gpu') AND Rate > 0 AND Rate < {{highest}} GROUP BY lProvider, lType, lKind, lModel),
    -- The newest price that is not after the hour: of the zone, else the region, else anywhere.
    -- If none is that old, the first one that came within the hour.
    rated AS (
        SELECT n.*, g.Negotiated AS Negotiated,
            arraySort(o -> (multiIf(o.2 != '', 2, o.1 != '', 1, 0), o.3 != '', o.7 <= n.Hour,
                    if(o.7 <= n.Hour, toInt64(toUnixTimestamp64Milli(o.7)), -toInt64(toUnixTimestamp64Milli(o.7))), o.4 = 'machine', o.9, o.10),
                arrayFilter(o -> o.1 IN ('', n.Region) AND o.2 IN ('', n.Zone) AND o.3 IN ('', n.System) AND o.7 < n.Hour + INTERVAL 1 HOUR AND o.8 > n.Hour, l.all))[-1] AS best,
            (best.5, best.4, best.6) AS Listed
        FROM need AS n
        LEFT ANY JOIN negotiated AS g ON g.gProvider = n.Provider AND g.gAccount = n.Account AND g.gType = n.InstanceType
            AND g.gModel = n.PricingModel AND g.gRegion = n.Region AND g.gDay = toDate(n.Hour) AND g.gKind = n.Kind
        LEFT ANY JOIN offered AS l ON l.lProvider = n.Provider AND l.lType = n.InstanceType AND l.lKind = n.Kind AND l.lModel = n.PricingModel)
