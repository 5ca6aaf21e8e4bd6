"""whisper_golden.py: writes whisper.golden, what Hugging Face's Whisper gives."""
import torch.nn.functional as F
from transformers import WhisperConfig, WhisperForConditionalGeneration

from golden import integers, keep_float64, values, write

keep_float64()
config = WhisperConfig(vocab_size=19, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                       decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=6,
                       max_source_positions=10, max_target_positions=12, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                       decoder_start_token_id=1, dropout=0, attn_implementation="eager")
spectrogram, tokens = values("spectrogram", (2, 6, 20)), integers("tokens", (2, 9), 19)


def f(model):
    logits = model(input_features=spectrogram, decoder_input_ids=tokens[:, :-1]).logits
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()), logits


write("whisper.golden", WhisperForConditionalGeneration(config).double(), f, skip=("proj_out.weight",))
