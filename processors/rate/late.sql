-- The live loads of days with a group whose bill is not whole yet.
SELECT d.Load AS Load, any(d.Day) AS Day
FROM
(
    SELECT Load, Day, arrayJoin(Groups) AS g
    FROM (SELECT Day, max(c.Load) AS Load, argMax(c.Groups, c.Load) AS Groups FROM idlewatt_store.estimate_commits AS c
        WHERE Day >= toDate({from: DateTime64(3, 'UTC')}) GROUP BY Source, Day)
) AS d
LEFT ANY JOIN idlewatt_store.complete AS c ON c.Provider = d.g.1 AND c.Account = d.g.2 AND c.Family = d.g.3
WHERE c.Through < toDateTime64(d.Day + 1, 3, 'UTC')
GROUP BY Load ORDER BY Load
