// Package crusoe reads the daily costs of Crusoe Cloud: a signed API that names project,
// region, resource type and metric of every cost, but no single machine.
//
// Facts are from crusoecloud/client-go (swagger/v1, auth). Costs come without tax and without
// what is paid for reservations. Nothing here was tried with a live account.
package crusoe
