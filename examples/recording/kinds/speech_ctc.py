"""Speech to letters: spectrograms by torch.stft, convolutions, a bidirectional GRU on packed sequences of different lengths, CTC loss."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

class Recognizer(nn.Module):
    def __init__(self, letters=29, width=512):
        super().__init__()
        self.front = nn.Sequential(nn.Conv2d(1, 32, (11, 5), stride=(2, 2), padding=(5, 2)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20))
        self.rnn = nn.GRU(32 * 101, width, num_layers=3, bidirectional=True, batch_first=True, dropout=0.1)
        self.head = nn.Linear(2 * width, letters)

    def forward(self, sound, lengths):
        spectrum = torch.stft(sound, 400, 160, window=torch.hann_window(400, device=sound.device), return_complex=True).abs().clamp(min=1e-5).log()
        hidden = self.front(spectrum.transpose(1, 2)[:, None])
        hidden = hidden.permute(0, 2, 1, 3).flatten(2)
        frames = (lengths // 160 + 1 + 1) // 2
        packed = pack_padded_sequence(hidden, frames.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.head(out).log_softmax(-1), frames

torch.manual_seed(0)
model = Recognizer().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
ctc = nn.CTCLoss(zero_infinity=True)
for step in range(4):
    sounds = [torch.randn(int(n)) for n in torch.randint(16000, 64000, (16,))]
    lengths = torch.tensor([len(s) for s in sounds])
    texts = [torch.randint(1, 29, (int(n),)) for n in torch.randint(10, 40, (16,))]
    scores, frames = model(pad_sequence(sounds, batch_first=True).cuda(), lengths)
    loss = ctc(scores.transpose(0, 1), pad_sequence(texts, batch_first=True).cuda(), frames.cuda(), torch.tensor([len(t) for t in texts]).cuda())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 400)
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
