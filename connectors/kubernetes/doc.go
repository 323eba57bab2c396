// Package kubernetes reads which pods hold GPUs and in what state nodes are, from the API
// server of one cluster. Each pod with GPUs is one task of the job that its topmost owner is;
// nodes with GPUs become inventory.node when what the cluster says of them changes.
//
// A job's id is namespace/name of the topmost owner. Its task is the pod: what follows the
// owner's name in the pod's, and the first digits of the pod's UID, since a name comes again
// and a pod does not. The attempt is what JobSet or an indexed Job says of restarts, else 0.
// So every hold has its own node, count, beginning and end, and a service that was scaled for
// a month does not keep every node that it ever used.
//
// Of pods only metadata, GPU requests, node and status are read, of their owners only
// metadata and conditions: never environment, arguments, volumes, config maps or secrets.
//
// Here live the words of Kubernetes and of what runs on it. Whether a held GPU works is
// decided in processors/utilize.
//
// Facts are from the Kubernetes API reference (core/v1, batch/v1, meta/v1; label and taint
// names), KubeRay, Kueue, JobSet and SkyPilot documentation. Nothing here was tried against a
// live cluster.
package kubernetes
