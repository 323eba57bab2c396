package connectors_test

import (
	"context"
	"io"

	"github.com/idlewatt/idlewatt/schema/event"
)

// keeper is an emitter that remembers ids.
type keeper struct{ ids []string }

func (k *keeper) Event(_ context.Context, e event.Event) error {
	k.ids = append(k.ids, e.ID)
	return nil
}

func (k *keeper) Archive(context.Context, string, io.Reader) (event.Object, error) {
	return event.Object{}, nil
}
