package alert

import (
	"regexp"
	"strings"
)

// stopCommand returns the exact command that stops paying for the node's GPUs, and what one
// should know before running it. It is empty where we know no way.
func stopCommand(n IdleNode) (command, warning string) {
	id := n.ResourceID
	if id == "" {
		return "", ""
	}
	switch provider := strings.ToLower(n.Provider); {
	case strings.Contains(provider, "aws") || strings.Contains(provider, "amazon"):
		return shell("aws", "ec2", "stop-instances", "--region", n.Region, "--instance-ids", last(id)), "Volumes are still billed."
	case strings.Contains(provider, "google") || strings.Contains(provider, "gcp"):
		return gcpStop(n), "Disks are still billed."
	case strings.Contains(provider, "azure") || strings.Contains(provider, "microsoft"):
		return shell("az", "vm", "deallocate", "--ids", id), "Disks are still billed; a VM that is only stopped inside is billed in full."
	case strings.Contains(provider, "runpod"):
		return shell("runpodctl", "stop", "pod", last(id)), "The pod's volume is still billed."
	case strings.Contains(provider, "vast"):
		return shell("vastai", "stop", "instance", last(id)), "Storage is still billed until the instance is destroyed."
	case strings.Contains(provider, "lambda"):
		return shell("curl", "-X", "POST", "-u", "$LAMBDA_API_KEY:", "-H", "Content-Type: application/json",
				"-d", `{"instance_ids":["`+last(id)+`"]}`, "https://cloud.lambda.ai/api/v1/instance-operations/terminate"),
			"Lambda instances cannot be stopped: this terminates it, and what is not on a file system is gone."
	}
	return "", ""
}

// gcpStop takes what it can from a full resource name such as
// //compute.googleapis.com/projects/p/zones/z/instances/name.
func gcpStop(n IdleNode) string {
	name, zone, project := last(n.ResourceID), n.Zone, n.Account
	parts := strings.Split(n.ResourceID, "/")
	for i := 0; i+1 < len(parts); i++ {
		switch parts[i] {
		case "projects":
			project = parts[i+1]
		case "zones":
			zone = parts[i+1]
		}
	}
	if n.Name != "" {
		name = last(n.Name)
	}
	return shell("gcloud", "compute", "instances", "stop", name, "--zone", zone, "--project", project)
}

// freeCommand returns the command that takes the idle GPUs from the job that holds them.
func freeCommand(n IdleNode) string {
	if n.State != "allocated_idle" {
		return ""
	}
	switch {
	case n.Scheduler == "slurm" && n.LastJobID != "":
		return shell("scancel", n.LastJobID)
	case strings.Count(n.Owner, "/") == 1:
		namespace, pod, _ := strings.Cut(n.Owner, "/")
		return shell("kubectl", "--namespace", namespace, "delete", "pod", pod)
	}
	return ""
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// shell joins words to a command line; words from outside are quoted, so that a name cannot
// become a command. A flag whose value is unknown is left out with it. Variables stay.
func shell(words ...string) string {
	var out []string
	for i, w := range words {
		switch {
		case w == "":
			if i > 0 && strings.HasPrefix(words[i-1], "-") {
				out = out[:len(out)-1]
			}
		case w == "$LAMBDA_API_KEY:":
			out = append(out, `"$LAMBDA_API_KEY:"`)
		case plainWord.MatchString(w):
			out = append(out, w)
		default:
			out = append(out, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
	}
	return strings.Join(out, " ")
}

// last is what stands behind the last slash: resource ids are paths at some providers.
func last(s string) string { return s[strings.LastIndex(s, "/")+1:] }
