-- Until when the bill of each account is whole, by cost family: the end of its newest hourly or
-- daily usage line with a cost, less what the provider needs to fill in; the end of the period
-- where the line is invoiced already; never after the version of the delivery if that is a
-- time. A bill is whole for every account it is for, or for none. Account '' is any of the
-- provider's, and whole only as far as all of them are. The table keeps the largest.
INSERT INTO idlewatt_store.complete_through (Provider, Account, Family, Through, BillingAccountId)
SELECT w.Provider, w.Account, w.Family, w.Whole, w.Payer
FROM
(
    SELECT Provider, Account, Family, if(Account = '', min(Until), max(Until)) AS Whole, argMax(BillingAccount, Until) AS Payer
    FROM
    (
        SELECT u.Provider AS Provider, u.BillingAccount AS BillingAccount, toString(u.Family) AS Family, groupUniqArrayArray(u.Accounts) AS known,
            max(least(multiIf(u.Invoiced, u.PeriodEnd,
                    -- A bill that was made days after its period ended has all of its usage.
                    v.Known > 0 AND v.Made >= u.PeriodEnd + INTERVAL 3 DAY AND dateDiff('day', u.PeriodStart, u.PeriodEnd) > 1, u.PeriodEnd,
                    u.Stop - toIntervalHour(transform(u.Provider, {{lagging}}, {{lags}}, {{lag}}))),
                if(v.Known > 0, v.Made, u.PeriodEnd))) AS Until
        FROM idlewatt_store.billed_usage AS u
        LEFT ANY JOIN
        (
            SELECT Load, countIf(startsWith(Version, 't')) AS Known,
                max(if(startsWith(Version, 't'), toDateTime64(fromUnixTimestamp64Micro(toInt64OrZero(substring(Version, 2)), 'UTC'), 3, 'UTC'), toDateTime64(0, 3, 'UTC'))) AS Made
            FROM idlewatt_store.commits WHERE Dataset != 'estimate' AND Load != 0 GROUP BY Load
        ) AS v ON v.Load = u.Load
        WHERE u.Costs AND u.Provider != '' AND dateDiff('second', u.Start, u.Stop) BETWEEN 1 AND 90000 -- a day of 25 hours is a day
        GROUP BY Provider, BillingAccount, Family
        UNION ALL
        -- Days from a provider's API are whole for all families: one without a line cost nothing.
        SELECT w.Provider, w.BillingAccount, arrayJoin(['compute', 'storage', 'other']), w.known,
            least(d.Till, if(d.Made > toDateTime64(0, 3, 'UTC'), d.Made - toIntervalHour(transform(w.Provider, {{lagging}}, {{lags}}, {{lag}})), d.Till))
        FROM
        (
            SELECT n.Source AS Source, u.Provider AS Provider, u.BillingAccount AS BillingAccount, groupUniqArrayArray(u.Accounts) AS known
            FROM idlewatt_store.billed_usage AS u
            INNER JOIN (SELECT DISTINCT Load, toString(Source) AS Source FROM idlewatt_store.commits WHERE Dataset = 'usage' AND Load != 0) AS n ON n.Load = u.Load
            WHERE u.Provider != '' GROUP BY Source, Provider, BillingAccount
        ) AS w
        INNER JOIN
        (
            SELECT toString(Source) AS Source, max(toDateTime64(toDate(splitByChar('/', Scope)[-1]) + 1, 3, 'UTC')) AS Till,
                max(if(startsWith(Version, 't'), toDateTime64(fromUnixTimestamp64Micro(toInt64OrZero(substring(Version, 2)), 'UTC'), 3, 'UTC'), toDateTime64(0, 3, 'UTC'))) AS Made
            FROM idlewatt_store.commits WHERE Dataset = 'usage' AND Load IN (SELECT Load FROM idlewatt_store.live_loads) GROUP BY Source
        ) AS d ON d.Source = w.Source
    )
    ARRAY JOIN arrayConcat(known, ['']) AS Account
    GROUP BY Provider, Account, Family
) AS w
LEFT ANY JOIN idlewatt_store.complete AS c ON c.Provider = w.Provider AND c.Account = w.Account AND c.Family = w.Family
WHERE w.Whole > c.Through
