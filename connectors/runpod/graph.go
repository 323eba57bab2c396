package runpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
)

// Queries of the old API. Fields: docs.runpod.io runpodctl/reference/runpodctl-user and
// sdks/graphql/manage-pods.
const (
	balanceQuery  = `query { myself { clientBalance currentSpendPerHr spendLimit } }`
	readingsQuery = `query { myself { pods { id runtime { gpus { id gpuUtilPercent } } } } }`
)

// purse is what GraphQL tells of the account, in USD.
type purse struct {
	Balance amount `json:"clientBalance"`
	Spend   amount `json:"currentSpendPerHr"`
	Limit   amount `json:"spendLimit"` // USD per hour
}

type graphGPU struct {
	ID   string       `json:"id"`
	Util *json.Number `json:"gpuUtilPercent"`
}

// graphAnswer is the envelope of GraphQL: errors come with status 200.
type graphAnswer struct {
	Data struct {
		Myself *struct {
			purse
			Pods []struct {
				ID      string `json:"id"`
				Runtime *struct {
					GPUs []graphGPU `json:"gpus"`
				} `json:"runtime"`
			} `json:"pods"`
		} `json:"myself"`
	} `json:"data"`
	Errors []struct {
		Message string `json:"message"`
	} `json:"errors"`
}

func (a *api) ask(ctx context.Context, query string) (*graphAnswer, error) {
	var out graphAnswer
	if _, err := a.graph.Do(ctx, rest.Call{Method: http.MethodPost, Body: map[string]string{"query": query}}, &out); err != nil {
		return nil, err
	}
	if len(out.Errors) > 0 {
		return nil, connectors.Permanent(fmt.Errorf("asking RunPod GraphQL: it answers with an error: %.200s", out.Errors[0].Message))
	}
	if out.Data.Myself == nil {
		return nil, connectors.Permanent(errors.New("asking RunPod GraphQL: the answer has no data.myself"))
	}
	return &out, nil
}

func (a *api) balance(ctx context.Context) (purse, error) {
	out, err := a.ask(ctx, balanceQuery)
	if err != nil {
		return purse{}, err
	}
	if !out.Data.Myself.Balance.set {
		return purse{}, connectors.Permanent(errors.New("asking RunPod GraphQL: the answer has no clientBalance"))
	}
	return out.Data.Myself.purse, nil
}

// readings are the utilisations of pods in percent, by pod; GPUs in the order of their ids.
func (a *api) readings(ctx context.Context) (map[string][]*json.Number, error) {
	answer, err := a.ask(ctx, readingsQuery)
	if err != nil {
		return nil, err
	}
	out := map[string][]*json.Number{}
	for _, p := range answer.Data.Myself.Pods {
		if p.Runtime == nil {
			continue
		}
		gpus := p.Runtime.GPUs
		slices.SortFunc(gpus, func(x, y graphGPU) int { return strings.Compare(x.ID, y.ID) })
		for _, g := range gpus {
			out[p.ID] = append(out[p.ID], g.Util)
		}
	}
	return out, nil
}
