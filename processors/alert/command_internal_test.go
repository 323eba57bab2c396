package alert

import "testing"

func TestStopCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		node IdleNode
		want string
	}{
		{
			IdleNode{Provider: "AWS", ResourceID: "arn:aws:ec2:us-east-1:1:instance/i-0abc", Region: "us-east-1"},
			"aws ec2 stop-instances --region us-east-1 --instance-ids i-0abc",
		},
		{IdleNode{Provider: "Amazon Web Services", ResourceID: "i-0abc"}, "aws ec2 stop-instances --instance-ids i-0abc"},
		{
			IdleNode{Provider: "Google Cloud", ResourceID: "//compute.googleapis.com/projects/ml/zones/us-central1-a/instances/trn-1", Account: "999"},
			"gcloud compute instances stop trn-1 --zone us-central1-a --project ml",
		},
		{
			IdleNode{Provider: "gcp", ResourceID: "4711", Name: "trn-2", Zone: "europe-west4-b", Account: "ml-prod"},
			"gcloud compute instances stop trn-2 --zone europe-west4-b --project ml-prod",
		},
		{
			IdleNode{Provider: "Microsoft", ResourceID: "/subscriptions/s/resourceGroups/r g/providers/Microsoft.Compute/virtualMachines/v"},
			"az vm deallocate --ids '/subscriptions/s/resourceGroups/r g/providers/Microsoft.Compute/virtualMachines/v'",
		},
		{IdleNode{Provider: "RunPod", ResourceID: "pod1"}, "runpodctl stop pod pod1"},
		{IdleNode{Provider: "Vast.ai", ResourceID: "123"}, "vastai stop instance 123"},
		{
			IdleNode{Provider: "Lambda", ResourceID: "abc"},
			`curl -X POST -u "$LAMBDA_API_KEY:" -H 'Content-Type: application/json' -d '{"instance_ids":["abc"]}' https://cloud.lambda.ai/api/v1/instance-operations/terminate`,
		},
		{IdleNode{Provider: "AWS", ResourceID: "i-0; rm -rf '~'"}, `aws ec2 stop-instances --instance-ids 'i-0; rm -rf '\''~'\'''`},
		{IdleNode{Provider: "AWS"}, ""},
		{IdleNode{Provider: "On premises", ResourceID: "x"}, ""},
	} {
		if got, _ := stopCommand(c.node); got != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s", c.node.Provider, c.node.ResourceID, got, c.want)
		}
	}
}

func TestFreeCommand(t *testing.T) {
	t.Parallel()
	for want, n := range map[string]IdleNode{
		"scancel 4711": {State: "allocated_idle", Scheduler: "slurm", LastJobID: "4711"},
		"kubectl --namespace ml delete pod train-0": {State: "allocated_idle", Owner: "ml/train-0"},
		"": {State: "unallocated_idle", Scheduler: "slurm", LastJobID: "4711", Owner: "ml/train-0"},
	} {
		if got := freeCommand(n); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
