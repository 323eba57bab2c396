// Package jobs stores what is known of jobs and of running machines: job.* and
// inventory.instance events become rows of idlewatt_store.job_events and
// idlewatt_store.instances.
//
// Here live their checks and their rows. How the facts of a job fold into one row per attempt
// is the view idlewatt_store.jobs (schema/migrations/views); who uses a GPU is decided in
// processors/utilize, what a job costs in processors/attribute.
package jobs
