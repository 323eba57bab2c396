package jobs

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/idlewatt/idlewatt/schema/event"
)

// What awsinventory tells of EC2 finds a machine by each of its names, and by no name that two
// machines have. Its words are those of a price that awsprices tells.
func TestEC2MachinesAreFoundByTheirNames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text, err := os.ReadFile("../../connectors/awsinventory/testdata/runs.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var runs []event.Instance
	if err := json.Unmarshal(text, &runs); err != nil {
		t.Fatal(err)
	}
	twin := runs[1]
	twin.ResourceID, twin.Hosts = "i-twin", []string{"i-twin", "ip-10-0-7-12"} // in another network
	for _, i := range append(runs, twin) {
		r.tell(event.TypeInventoryInstance, i.ResourceID, i)
	}
	price := event.Price{
		Source: "aws", Provider: "aws", Region: "us-east-1", InstanceType: "p5.48xlarge", Kind: event.KindMachine, System: "Linux",
		PricingModel: "on_demand", Per: event.PerMachine, Currency: "USD", ValidFrom: clock(),
	}
	price.Rate = price.Rate.Add(*runs[0].GPUCount)
	r.tell(event.TypeInventoryPrice, "p5", price)
	r.tell(event.TypeInventoryPoll, "poll", event.Poll{Source: "aws", Provider: "aws", Account: runs[0].Account, Region: "us-east-1", At: clock(), Running: 4})
	r.drain()
	for node, want := range map[string]string{
		"ip-10-0-7-11.ec2.internal": "i-0d6e41f0a3b207001", "ip-10-0-7-11": "i-0d6e41f0a3b207001", "trn-07": "i-0d6e41f0a3b207001",
		"10.0.7.11": "i-0d6e41f0a3b207001", "i-0d6e41f0a3b207003": "i-0d6e41f0a3b207003", "ip-10-0-7-12.ec2.internal": "i-0d6e41f0a3b207002",
		"ip-10-0-7-12": "",
	} {
		var got string
		if err := r.db.QueryRow(t.Context(), "SELECT max(ResourceId) FROM idlewatt_store.host_resources WHERE Node = ?", node).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, want %q: %v", node, got, want, err)
		}
	}
	if n := r.count(`SELECT count() FROM idlewatt_store.instances AS i FINAL INNER JOIN idlewatt_store.prices AS p ON (p.Provider, p.Region, p.InstanceType, p.Kind,
		p.System, p.PricingModel) = (i.Provider, i.Region, i.InstanceType, i.Kind, i.System, i.PricingModel)
		INNER JOIN idlewatt_store.polls AS o ON (o.Source, o.Account, o.Region) = (i.Source, i.Account, i.Region)`); n != 1 {
		t.Errorf("%d machines have a list price and a poll, want 1", n)
	}
}

func (r rig) tell(typ, key string, payload any) {
	r.t.Helper()
	e, err := event.New(typ, "idlewatt/aws", key, "", clock(), payload)
	if err != nil {
		r.t.Fatal(err)
	}
	r.publish(e)
}
