package files

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/schema/event"
)

// sink keeps what a pull emits.
type sink struct{ events []event.Event }

func (s *sink) Event(_ context.Context, e event.Event) error {
	s.events = append(s.events, e)
	return nil
}

func (*sink) Archive(_ context.Context, name string, r io.Reader) (event.Object, error) {
	b, err := io.ReadAll(r)
	return event.Object{Name: name, SHA256: "of " + name, Size: int64(len(b)), Encoding: "csv", Compression: "none"}, err
}

func TestEveryMistakeOfAConfigurationIsNamed(t *testing.T) {
	t.Parallel()
	err := (&Config{Format: "aws-cur3", CapacityBlock: "(", Settle: -1}).Validate()
	for _, want := range []string{"path: is required", `format: "aws-cur3" is none of`, "capacity_block: error parsing regexp", "settle: must not be negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// What a person states about the files goes into the delivery, so that a replay reads them alike.
func TestDeliveryCarriesWhatIsStated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bill.csv")
	if err := os.WriteFile(path, []byte("a\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Factory().New("payer", &Config{Path: path, Format: "aws-cur2", Currency: "USD", Account: "1", CapacityBlock: "CB4ML"})
	if err != nil {
		t.Fatal(err)
	}
	var s sink
	cur, err := c.Pull(t.Context(), nil, &s)
	if err != nil || len(s.events) != 1 {
		t.Fatalf("%d events, %v", len(s.events), err)
	}
	var d event.BillingDelivery
	if err := json.Unmarshal(s.events[0].Data, &d); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(event.Assumptions{Currency: "USD", Account: "1", CapacityBlock: "CB4ML"}, d.Assume); diff != "" {
		t.Errorf("what is stated (-want +got):\n%s", diff)
	}
	if _, err := c.Pull(t.Context(), cur, &s); err != nil || len(s.events) != 1 {
		t.Errorf("an unchanged folder: %d events, %v", len(s.events), err)
	}
}
