    -- Up to where the bill is whole an estimate goes, whether its bill has such a line or not.
    candidate AS (
        SELECT e.* EXCEPT (Source, Kind, Family, Provider, Account), toString(e.Source) AS Source, toString(e.Kind) AS Kind, toString(e.Family) AS Family,
            toString(e.Provider) AS Provider, toString(e.Account) AS Account,
            multiIf(c.BillingAccountId != '' AND Account != '', c.BillingAccountId, Account != '', Account, Source) AS Payer
        FROM (SELECT * FROM idlewatt_store.estimates WHERE Load IN {loads: Array(UInt64)} AND isNotNull(Cost)) AS e
        LEFT ANY JOIN idlewatt_store.complete AS c ON c.Provider = e.Provider AND c.Account = e.Account AND c.Family = e.Family
        WHERE e.Stop > c.Through),
    -- After it goes what is billed already, by resource, family and hour.
    billed AS (
        SELECT DISTINCT Resource, toString(Family) AS Family, arrayJoin(arrayMap(i -> toDateTime64(toStartOfHour(s), 3, 'UTC') + toIntervalHour(i),
            range(toUInt32(dateDiff('hour', s, e - INTERVAL 1 MILLISECOND) + 1)))) AS Hour
        FROM
        (
            SELECT Resource, Family, greatest(Start, {since: DateTime64(3, 'UTC')}) AS s, least(Stop, {till: DateTime64(3, 'UTC')}) AS e
            FROM idlewatt_store.billed_usage
            WHERE Resource IN (SELECT ResourceId FROM idlewatt_store.estimates WHERE Load IN {loads: Array(UInt64)})
        )
        WHERE e > s),
    -- Without a bill an invoice settles.
    asked AS (
        SELECT Money, groupArray((Id, Payer, Since, Till, Sum, Issuer, Money)) AS all
        FROM
        (
            SELECT InvoiceIssuerName AS Issuer, BillingAccountId AS Payer, BillingPeriodStart AS Since,
                if(BillingPeriodEnd > BillingPeriodStart, BillingPeriodEnd, BillingPeriodStart + INTERVAL 1 MONTH) AS Till, BillingCurrency AS Money,
                sum(BilledCost) AS Sum, arrayStringConcat(arraySort(groupArray(if(InvoiceId = '', 'unnamed', InvoiceId))), ', ') AS Id
            FROM idlewatt_store.invoices FINAL GROUP BY Issuer, Payer, Since, Till, Money
        )
        GROUP BY Money),
    matched AS (
        SELECT u.*, if(u.Provider IN (SELECT Provider FROM idlewatt_store.complete), [],
                arraySort(i -> (dateDiff('second', i.3, i.4), i.3, i.6, i.2), arrayFilter(i -> u.Start >= i.3 AND u.Start < i.4
                    AND position(lower(i.6), u.Provider) > 0 AND (u.Account = '' OR i.2 IN (u.Account, u.Payer)), a.all)))[1] AS Invoice
        FROM
        (
            -- The source that saw most of an hour tells of a resource, if several see it.
            SELECT *, argMax(Source, (Hours, Source)) OVER (PARTITION BY Provider, ResourceId, Kind, Hour) AS teller FROM candidate
            WHERE (ResourceId, Family, Hour) NOT IN (SELECT Resource, Family, Hour FROM billed)
        ) AS u
        LEFT ANY JOIN asked AS a ON a.Money = u.Currency
        WHERE u.Source = u.teller),
    -- What an invoice has beyond its estimates, or below, is one line of its first day.
    charge AS (
        SELECT concat(Source, '/estimate/', toString(Day)) AS Scope, Source, Day, toNullable(ResourceId) AS Resource, Kind, Family, Start, Stop, Name, Node, Provider,
            if(Invoice.1 = '', Payer, Invoice.2) AS BillTo, if(Account IN ('', BillTo), NULL, toNullable(Account)) AS Sub, toString(Region) AS Region,
            toString(Zone) AS Zone, toString(InstanceType) AS InstanceType, toString(GpuModel) AS GpuModel, GpuCount, toString(PricingModel) AS PricingModel, Tags,
            toNullable(Hours) AS Hours, GpuHours, toString(RateSource) AS How, toString(Currency) AS Currency, assumeNotNull(Cost) AS Amount, nullIf(Invoice.1, '') AS InvoiceId,
            if(Invoice.1 = '', toDateTime64(toStartOfMonth(Day), 3, 'UTC'), Invoice.3) AS PeriodStart,
            if(Invoice.1 = '', toDateTime64(toStartOfMonth(Day) + INTERVAL 1 MONTH, 3, 'UTC'), Invoice.4) AS PeriodEnd,
            'Usage' AS Category, 'estimate' AS Line
        FROM matched
        UNION ALL
        SELECT concat(min((Day, Source)).2, '/estimate/', toString(min(Day))), min((Day, Source)).2, min(Day), CAST(NULL AS Nullable(String)), '', 'other',
            Invoice.3, Invoice.4, '', '', any(Provider), Invoice.2, CAST(NULL AS Nullable(String)), '', '', '', '',
            CAST(NULL AS Nullable(Decimal(38, 18))), '', CAST(map(), 'Map(LowCardinality(String), String)'), CAST(NULL AS Nullable(Decimal(38, 18))),
            CAST(NULL AS Nullable(Decimal(38, 18))), 'invoice', Invoice.7, Invoice.5 - sum(assumeNotNull(Cost)),
            toNullable(Invoice.1), Invoice.3, Invoice.4, 'Adjustment', 'invoice_settlement'
        FROM matched WHERE Invoice.1 != '' GROUP BY Invoice)
