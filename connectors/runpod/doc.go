// Package runpod asks RunPod's REST API (v2 only) what ran, what it costs an hour and what was
// billed, and writes that as charge lines, inventory and weak GPU samples.
//
// Here live the forms of RunPod's answers, the control of its billing routes against each
// other, the memory of what ran (bills name no GPU and forget deleted pods), and the reading
// of saved answers, old v1 exports too. What a charge means for a job or a month is the
// processors' matter. Nothing of a pod's `env` leaves this package but what the
// configuration lists by name.
package runpod
