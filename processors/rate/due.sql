-- Which (source, day) would be computed from other inputs than last time. Every run is taken as
-- its day sees it, so that what happens later moves no earlier day. Facts leave out the end of
-- what still runs, which moves with every poll.
--
-- Parameters: from, to, origin (empty: all), now, patience (seconds that a poll alone may wait).
WITH
{{template "rates"}},
    pieces AS (
        SELECT Origin, toDate(first_day) + arrayJoin(range(toUInt32(dateDiff('day', first_day, greatest(till - INTERVAL 1 MILLISECOND, first_day)) + 1))) AS Day,
            toDateTime64(Day + 1, 3, 'UTC') AS midnight, End <= midnight AS last, toDate(SeenFrom) = Day AS starts,
            toString((ResourceId, Kind, Provider, Account, Region, Zone, InstanceType, System, GpuModel, GpuCount, PricingModel, Rate, Currency,
                Name, Hosts[1], mapSort(Tags), Step, SeenFrom, if(starts, Before, 0), Open AND last, End > SeenFrom)) AS what,
            (Day, if(Open, 0, last), if(last AND NOT Open, (End, Billed, Widest), (midnight, 0, 0)), what) AS told,
            (Day, if(last, (End, Billed, Widest), (midnight, 0, 0)), what) AS seen
        FROM (SELECT *, toDateTime64(greatest(SeenFrom, {from: DateTime64(3, 'UTC')}), 3, 'UTC') AS first_day FROM run)),
    wanted AS (
        SELECT Origin, Day, sum(f) AS Facts, sum(e) AS Exact FROM
        (
            SELECT Origin, Day, sipHash64('{{version}}', toString(told)) AS f, sipHash64('{{version}}', toString(seen)) AS e FROM pieces
            UNION ALL
            -- Rates by value and not by hour: an hour more at the same rate is no other fact.
            SELECT Origin, Day, if(Known, sipHash64(what), 0), sipHash64(what, n) FROM
            (
                SELECT Origin, toDate(Hour) AS Day, toString((Provider, Account, InstanceType, Kind, PricingModel, Region, Zone, System, Negotiated, Listed)) AS what,
                    1 AS Known, toString(groupArray(Hour)) AS n
                FROM (SELECT * FROM rated ORDER BY Hour) GROUP BY Origin, Day, what
            )
        )
        GROUP BY Origin, Day),
    had AS (
        SELECT toString(Source) AS Origin, Day, argMax(h.Facts, Load) AS Facts, argMax(Fingerprint, Load) AS Exact, argMax(h.Rows, Load) AS Rows, argMax(h.At, Load) AS Last
        FROM idlewatt_store.estimate_commits AS h
        WHERE Day >= toDate({from: DateTime64(3, 'UTC')}) AND ({origin: String} = '' OR Source = {origin: String}) GROUP BY Origin, Day)
SELECT if(w.Origin != '', w.Origin, h.Origin) AS Origin, if(w.Origin != '', w.Day, h.Day) AS Day, w.Facts AS Facts, w.Exact AS Exact
FROM (SELECT toString(Origin) AS Origin, Day, Facts, Exact FROM wanted) AS w
FULL OUTER JOIN had AS h ON h.Origin = w.Origin AND h.Day = w.Day
WHERE w.Origin = '' AND (h.Rows > 0)
    OR w.Origin != '' AND (h.Origin = '' OR w.Facts != h.Facts
        OR w.Exact != h.Exact AND h.Last <= {now: DateTime64(3, 'UTC')} - toIntervalSecond({patience: UInt32}))
ORDER BY Origin, Day
