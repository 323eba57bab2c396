-- Every run of a resource with its end. An open one lasts until the last poll of its source
-- that covers it, and without any poll until it was told last; a run ends at the latest where
-- the next of the same resource begins. A record that only names a host is no run.
CREATE OR REPLACE VIEW idlewatt_store.runs AS
SELECT * EXCEPT (Told, Next, polls),
    greatest(SeenFrom, least(Told, ifNull(Next, Told))) AS End,
    isNull(SeenTo) AND isNull(Next) AS Open,
    -- Milliseconds that the widest bounds add before and after.
    if(isNull(StartedAfter), 0, dateDiff('millisecond', assumeNotNull(StartedAfter), SeenFrom)) AS Before,
    if(isNull(EndedBefore) OR End < Told, 0, dateDiff('millisecond', Told, assumeNotNull(EndedBefore))) AS After,
    dateDiff('millisecond', SeenFrom, End) AS Sure,
    -- Billed time is counted up to the step, once per run.
    if(Step > 0, intDiv(Sure + Step * 1000 - 1, Step * 1000) * Step * 1000, Sure) AS Billed,
    if(Step > 0, intDiv(Before + Sure + After + Step * 1000 - 1, Step * 1000) * Step * 1000, Before + Sure + After) AS Widest
FROM
(
    SELECT i.* EXCEPT (Source), replaceRegexpAll(if(i.Source = '', i.Provider, i.Source), '[^\\w .:@-]', '_') AS Origin, -- part of a scope's name
        multiIf(i.Kind IN ('storage', 'volume'), 'storage', i.Kind IN ('machine', 'serverless'), 'compute', 'other') AS Family,
        leadInFrame(toNullable(i.SeenFrom)) OVER (PARTITION BY i.Source, i.Provider, i.ResourceId, i.Kind ORDER BY i.SeenFrom
            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS Next,
        arrayFilter(q -> q.1 IN ('', i.Account) AND q.2 IN ('', i.Region), p.polls) AS polls,
        multiIf(isNotNull(i.SeenTo), assumeNotNull(i.SeenTo), notEmpty(polls), arrayMax(q -> q.3, polls), toDateTime64(i.ReceivedAt, 3, 'UTC')) AS Told
    FROM (SELECT * FROM idlewatt_store.instances FINAL
        WHERE Provider != 'config' AND SeenFrom >= toDateTime64('2000-01-01 00:00:00', 3, 'UTC') AND ifNull(SeenTo < toDateTime64('2100-01-01 00:00:00', 3, 'UTC'), 1)
            AND (isNotNull(Rate) OR InstanceType != '' OR PricingModel != '' OR Kind != 'machine')) AS i
    LEFT ANY JOIN
    (
        SELECT Source, groupArray((toString(Account), toString(Region), Last)) AS polls
        FROM (SELECT Source, Account, Region, max(At) AS Last FROM idlewatt_store.polls GROUP BY Source, Account, Region) GROUP BY Source
    ) AS p ON p.Source = i.Source
)
;;
-- Until when bills are whole.
CREATE OR REPLACE VIEW idlewatt_store.complete AS
SELECT Provider, Account, Family, max(c.Through) AS Through, argMax(c.BillingAccountId, c.Through) AS BillingAccountId
FROM idlewatt_store.complete_through AS c GROUP BY Provider, Account, Family
;;
-- The estimates of each day's newest computation.
CREATE OR REPLACE VIEW idlewatt_store.live_estimates AS
SELECT * FROM idlewatt_store.estimates
WHERE Load IN (SELECT max(Load) FROM idlewatt_store.estimate_commits GROUP BY Source, Day)
