# Models made from a configuration: an encoder, and a decoder that generates.
# part: slow
# requires: transformers==5.24.0 torch==2.15.0 numpy==2.4.6
import torch
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel


def run():
    torch.manual_seed(1)
    bert = BertModel(BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64))
    tokens = torch.arange(1, 11).reshape(1, 10)
    hidden = bert.eval()(tokens).last_hidden_state
    gpt = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2))
    generated = gpt.eval().generate(tokens, max_new_tokens=8, do_sample=False, pad_token_id=0)
    return {"numbers": [*hidden[0, 0, :4].tolist(), *generated[0].tolist()]}
