// Package slurm reads jobs and nodes of a Slurm cluster: from slurmrestd, from the commands
// sacct and scontrol, or from a saved `sacct --json` file. Jobs with GPUs become job.started,
// job.placed and job.finished, one attempt per restart; nodes with GPUs become inventory.node
// when what the scheduler says of them changes.
//
// Here live Slurm's words and their forms over the versions of its data parser. Which GPU a
// job used when the record does not say so is decided in processors/utilize, what it cost in
// processors/attribute.
//
// Facts are from Slurm's source (SchedMD/slurm 284c3b9: data_parser/v0.0.43 parsers.c,
// accounting_storage/mysql as_mysql_job.c and as_mysql_jobacct_process.c) and the documented
// API of v0.0.40 to v0.0.42. Nothing here was tried against a live slurmrestd.
package slurm
